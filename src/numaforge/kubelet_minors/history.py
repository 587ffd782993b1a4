"""Histories in the notation of the tables: `28 beta on, 33 ga on locked, 36 gone`."""

from collections.abc import Mapping
from functools import cache

_GONE = "gone"


@cache
def state_at(history: str, minor: int) -> str | None:
    """Return the state at a minor, or None where there is none."""
    reached = None
    for change in history.split(", "):
        since, _, state = change.partition(" ")
        if int(since) <= minor:
            reached = state
    return None if reached == _GONE else reached


def first_minor(history: str) -> int:
    """Return the minor with which a history begins; the oldest in the tables stands for all older ones."""
    return int(history.partition(" ")[0])


def states_at(histories: Mapping[str, str], minor: int) -> dict[str, str]:
    """Return the states of a table at a minor, by name."""
    states = {name: state_at(history, minor) for name, history in histories.items()}
    return {name: state for name, state in states.items() if state is not None}
