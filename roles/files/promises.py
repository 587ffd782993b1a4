"""The files and units that numaforge wrote: mode, owner, content and state as planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import pytest

from numaforge.lib import shell
from numaforge.lib.file_content import PlannedFile, boot_units
from numaforge.machine.snapshot.redaction import redact
from numaforge.roles.promise import Promise, Table, require, unit_starts_at_boot, unit_state

if TYPE_CHECKING:
    from numaforge.node.bundle import FileState
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode

_SHOWN_PLACES, _SHOWN_LINES, _SHOWN_CHARACTERS = 3, 2, 160
"""How much of a file's differences a failure shows."""


def files(plan: NodePlan) -> Table:
    """Each file that numaforge wrote."""
    return {file.path: file for file in plan.files if not file.waits}


def units(plan: NodePlan) -> Table:
    """The states allowed for each of our units: a service that runs at boot has not failed."""
    states = {".service": ("active", "inactive"), ".timer": ("active",)}
    return {unit.name: states[unit.suffix] for unit in boot_units(plan.files)}


def starting_units(plan: NodePlan) -> Table:
    """The units that must start at boot."""
    return dict.fromkeys(units(plan), "enabled")


def _asks(plan: NodePlan) -> Iterator[str]:
    """Yield the shell call that prints the ages of files."""
    yield shell.call("tell_ages", [file.path for file in plan.files])


def _file_mode_and_owner(node: VerifiedNode, name: str, expected: PlannedFile) -> None:
    state = _state(node, name)
    actual = {"mode": state.mode.zfill(4), "owner": f"{state.owner}:{state.group}"}
    planned = {"mode": expected.mode.zfill(4), "owner": f"{expected.owner}:{expected.group}"}
    differs = [
        f"{attribute} {actual[attribute]}, planned {planned[attribute]}"
        for attribute in actual
        if actual[attribute] != planned[attribute]
    ]
    require(not differs, "; ".join(differs))


def _file_content(node: VerifiedNode, name: str, expected: PlannedFile) -> None:
    state = _state(node, name)
    planned = node.planned_text(expected, config_text=state.text)
    require(state.text == planned, changed_lines(state.text, planned))


def _state(node: VerifiedNode, name: str) -> FileState:
    """Return a planned file as it is; fails the test where there is none."""
    state = node.live.files.get(name)
    if state is None:
        pytest.fail("does not exist", pytrace=False)
    return state


def changed_lines(actual: str, planned: str) -> str:
    """Return how many places of a text differ, and the first ones without secrets."""
    actual_lines, planned_lines = redact(actual).splitlines(), redact(planned).splitlines()
    blocks = SequenceMatcher(None, actual_lines, planned_lines, autojunk=False).get_opcodes()
    places = [
        f"line {first + 1}: {_lines(actual_lines[first:last])}, planned {_lines(planned_lines[begin:end])}"
        for kind, first, last, begin, end in blocks
        if kind != "equal"
    ]
    more = f"; and {len(places) - _SHOWN_PLACES} more places" if len(places) > _SHOWN_PLACES else ""
    return "; ".join(places[:_SHOWN_PLACES]) + more or "differs in secrets or in how its lines end"


def _lines(lines: Sequence[str]) -> str:
    shown = " / ".join(line.strip() for line in lines[:_SHOWN_LINES])
    shown = shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}..."
    more = f" and {len(lines) - _SHOWN_LINES} more lines" if len(lines) > _SHOWN_LINES else ""
    return f"`{shown}`{more}" if lines else "no such line"


PROMISES = (
    Promise("file_mode_and_owner", files, _file_mode_and_owner, asks=_asks),
    Promise("file_content", files, _file_content),
    Promise("unit_state", units, unit_state, units=units),
    Promise("unit_starts_at_boot", starting_units, unit_starts_at_boot),
)
