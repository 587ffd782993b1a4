"""Read in one round trip what the operations that follow are going to ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyinfra.api import Host

from numaforge.errors import HostError
from numaforge.hosts import connection
from numaforge.hosts.facts import ScriptOutput
from numaforge.hosts.scripts import ended, marked, new_mark
from numaforge.rollout.patience import HostAwayError


@dataclass(frozen=True)
class _ReadAhead:
    """What a script printed, for the operation before which so many others have finished on the host."""

    output: list[str]
    before_operation: int


# What the next operations will ask of a host, in their order, and what it has answered to that already.
_to_be_read: WeakKeyDictionary[Host, list[str]] = WeakKeyDictionary()
_read_ahead: WeakKeyDictionary[Host, dict[str, _ReadAhead]] = WeakKeyDictionary()


def will_read(host: Host, script_text: str) -> None:
    """Say in a role what its operation is going to give to `script_output`.

    The first operation that asks has the scripts of all that follow run in the same round trip. A change to
    the host makes what was read so far invalid, and so does an operation of somebody else in between: then
    the next of ours asks anew.
    """
    _to_be_read.setdefault(host, []).append(script_text)


def forget_what_was_read(host: Host) -> None:
    """Have the next operation ask anew, because the host is about to change."""
    _read_ahead.pop(host, None)


def script_output(host: Host, script_text: str) -> list[str]:
    """Run a script that changes nothing and return the lines it prints, at least one.

    Raises HostError when it fails or prints nothing.
    """
    announced = _to_be_read.get(host, [])
    if script_text not in announced:
        return _run(host, script_text)
    # An operation that runs twice, to prepare and to execute, sees the host as it is each time.
    known = _read_ahead.get(host, {}).pop(script_text, None)
    finished: int = host.state.get_results_for_host(host).ops
    if known is not None and known.before_operation == finished:
        return _answered(known.output)
    following = announced[announced.index(script_text) :]
    first, *others = _run_all(host, following)
    _read_ahead[host] = {
        later: _ReadAhead(output, finished + number)
        for number, (later, output) in enumerate(zip(following[1:], others, strict=True), start=1)
    }
    return _answered(first)


def _run_all(host: Host, scripts: Sequence[str]) -> list[list[str]]:
    """Run scripts in one round trip, each in a shell of its own; return no lines for one that fails."""
    mark = new_mark()
    answers = ended(_run(host, "".join(marked(text, mark) for text in scripts)), mark)
    if len(answers) != len(scripts):
        raise HostError("the answer is cut off", remedy="run again")
    return [lines if status == 0 else [] for status, lines in answers]


def _run(host: Host, script_text: str) -> list[str]:
    with connection.within(host, connection.LOOK_SECONDS):
        return _answered(host.get_fact(ScriptOutput, _stdin=script_text, _ignore_errors=True))


def _answered(output: list[str] | None) -> list[str]:
    if not output:
        raise HostAwayError(
            "did not answer", remedy="see the messages above; run again when the host is reachable"
        )
    return output
