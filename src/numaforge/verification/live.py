"""A host's current state: its plan, and the state of everything in the plan."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import pytest
from testinfra.backend.base import CommandResult
from testinfra.host import Host

from numaforge.kubelet_minors.flags import registered_name
from numaforge.lib import shell
from numaforge.lib.bounded import TooMuchOutputError
from numaforge.lib.errors import HostError, HostUnreachableError, NumaforgeError
from numaforge.lib.file_content import PLAN_PATH, PlannedFile
from numaforge.lib.framing import Answer, Output, asking
from numaforge.lib.kernel_files import parse_values
from numaforge.lib.unfinished import LIBRARY, TRANSACTIONS, Unfinished, read_unfinished
from numaforge.node import bundle
from numaforge.node.bundle import FileState
from numaforge.planning import document
from numaforge.planning.plan import NodePlan
from numaforge.planning.render import render_file
from numaforge.roles.promise import HOSTNAME
from numaforge.verification.table import all_promises

Found = TypeVar("Found")

_UNFINISHED = "unfinished"
_NOT_ROOT = 77  # from as_root.sh
NOT_INSTALLED = 127  # a shell's exit code for a missing program
_AS_ROOT = shell.library("verification/as_root")


@dataclass(frozen=True)
class Live:
    """The host as the probe found it: first lines of files, their states, a change that has not ended.

    `said` are the probe's lines by kind: pairs of a name, which may repeat, and its value.
    """

    values: Mapping[str, str]
    files: Mapping[str, FileState] = field(default_factory=dict)
    said: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    unfinished: Unfinished | None = None

    def of(self, kind: str) -> Mapping[str, str]:
        """Return the values of a kind by name, such as {"ib_core": "loaded"} for "module"."""
        return dict(self.said.get(kind, ()))

    def lines(self, kind: str) -> Sequence[tuple[str, str]]:
        """Return every line of a kind whose names repeat, such as "interrupt"."""
        return self.said.get(kind, ())

    @property
    def changed(self) -> Mapping[str, int]:
        """The modification time of each file, in seconds since 1970."""
        return {path: int(time) for path, time in self.lines("changed")}

    @property
    def node_name(self) -> str:
        """The name under which the kubelet registers: its flag --hostname-override, else the host's name."""
        flags = tuple(self.of("kubelet").get("arguments", "").split())
        return registered_name(flags, self.values.get(HOSTNAME))

    @property
    def kubelet_started(self) -> float:
        """The start time of the kubelet's process, in seconds since 1970."""
        kubelet = self.of("kubelet")
        uptime = float(kubelet["uptime"].split()[0])
        return int(kubelet["now"]) - uptime + int(kubelet["since"]) / 1e6

    def started_with(self, unit: str, file: str) -> bool:
        """Whether a unit's process started after a file was written; False where either does not exist."""
        since, written = self.of("host").get(f"since {unit}"), self.changed.get(file)
        return since is not None and written is not None and int(since) >= written


class VerifiedNode:
    """A host under verification; what is unreadable fails its tests, which mean nothing if `unreachable`."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.id: str = host.backend.get_pytest_id()
        self.unreachable = False

    @cached_property
    def plan_or_reason(self) -> NodePlan | NumaforgeError:
        """The host's plan, or the error of a missing one."""
        return _or_reason(lambda: _plan(self._run(bundle.read_script([PLAN_PATH]))))

    def read(self) -> None:
        """Read everything from the host, so that no test has to wait."""
        if not isinstance(self.plan_or_reason, NumaforgeError):
            _ = self._live_or_reason

    @property
    def plan(self) -> NodePlan:
        """The host's plan; fails the test without one."""
        return self._need(self.plan_or_reason)

    @property
    def live(self) -> Live:
        """The host's current state; fails the test where unreadable."""
        return self._need(self._live_or_reason)

    def planned_text(self, file: PlannedFile, config_text: str | None) -> str:
        """Return the text of one file of the plan; `config_text` as for `render_file`."""
        return render_file(self.plan, file, config_text)

    def value(self, path: str) -> str | None:
        """Return the first line of a kernel file; None without the file."""
        return self.live.values.get(path)

    @cached_property
    def _live_or_reason(self) -> Live | NumaforgeError:
        known = planned_texts(self.plan)
        return _or_reason(lambda: read_live(self._run(probe(self.plan, known)), self.plan, known))

    def prove(self, script: str) -> str:
        """Run a script as root, return its output; skips without its program, fails where it fails."""
        try:
            answer = self.host.run("sh -c %s %s", _AS_ROOT, script)
        except TooMuchOutputError as error:
            pytest.fail(str(error.at(self.id)), pytrace=False)
        if answer.rc == NOT_INSTALLED:
            pytest.skip(f"needs a program on the host: {answer.stderr.strip()}")
        if answer.rc:
            pytest.fail(f"ended with {answer.rc}: {answer.stderr.strip()}", pytrace=False)
        return str(answer.stdout)

    def _run(self, script: str) -> str:
        try:
            answer = self.host.run("sh -c %s %s", _AS_ROOT, script)
        except NumaforgeError as error:
            self.unreachable = isinstance(error, HostUnreachableError)
            raise
        except Exception as error:
            # Every connection backend has its own exceptions; they all mean the same here.
            self.unreachable = True
            raise HostError(
                f"cannot be reached: {_why(error)}", remedy="check its name, port, user and key"
            ) from error
        if answer.rc == _NOT_ROOT:
            raise HostError(
                "the login user is not root and sudo does not let it in without a password",
                remedy="log in as root, or give this user a sudoers rule with NOPASSWD: ALL",
            )
        if answer.rc != 0:
            raise HostError(
                f"could not be read: {answer.stderr.strip()}", remedy="try the same login by hand"
            )
        return str(answer.stdout_bytes, "utf-8", "surrogateescape")

    def _need(self, found: Found | NumaforgeError) -> Found:
        if isinstance(found, NumaforgeError):
            pytest.fail(str(found.at(self.id)), pytrace=False)
        return found


def _plan(output: Output) -> NodePlan:
    """Return a host's plan from its answer; raises NumaforgeError where it has no usable plan."""
    files = bundle.parse_states(Answer.of(output))
    if PLAN_PATH not in files:
        raise HostError(f"has no {PLAN_PATH}", remedy="run `pyinfra INVENTORY deploys/site.py` on it first")
    try:
        return document.loads(files[PLAN_PATH].text)
    except NumaforgeError as error:
        raise error.at(PLAN_PATH) from error


def _why(error: Exception) -> str:
    """Return ssh's last error line; testinfra's error is the whole result, with the script."""
    result = error.args[0] if error.args else None
    if isinstance(result, CommandResult):
        lines = result.stderr.strip().splitlines()
        said = [line for line in lines if ": terminating, " not in line]  # counts the errors in ssh_config
        return said[-1].strip() if said else f"ssh ended with {result.rc}"
    return str(error)


def planned_texts(plan: NodePlan) -> list[str]:
    """Return the planned texts of files that do not depend on the host's current content."""
    texts = []
    for file in plan.files:
        with suppress(NumaforgeError):  # its promise reports the error
            texts.append(render_file(plan, file))
    return texts


def probe(plan: NodePlan, known: Iterable[str] = ()) -> str:
    """Return the script for `read_live`; of `known` texts the host says only which file has them."""
    promises = [promise for _, promise in all_promises()]
    units = dict.fromkeys(unit for promise in promises for unit in promise.units(plan))
    properties = dict.fromkeys(each for promise in promises for each in promise.properties)
    asks = dict.fromkeys(call for promise in promises for call in promise.asks(plan))
    folders = sorted({role.folder for role, promise in all_promises() if any(promise.asks(plan))})
    # A role's probe.sh, and the state.sh that it shares with its part.
    scripts = [f"roles/{folder}/{file}" for folder in folders for file in ("state", "probe")]
    return asking(
        shell.library(
            "lib/kernel_files", "lib/units", "verification/probe", LIBRARY, *filter(shell.exists, scripts)
        )
        + (shell.call("tell_units", [",".join(properties), *units]) if units else "")
        + "".join(asks)
        + shell.call("tell_part", [_UNFINISHED, "tell_unfinished", TRANSACTIONS])
        + shell.call("tell_part", ["values", "tell_values", *_values(plan)])
        + bundle.reading([file.path for file in plan.files], known)
    )


def read_live(output: Output, plan: NodePlan, known: Iterable[str] = ()) -> Live:
    """Return the probe's result, given its `known` texts; raises HostUnreachableError if it is truncated."""
    answer = Answer.of(output)
    said: dict[str, list[tuple[str, str]]] = {}
    for line in answer.lines:
        kind, _, rest = line.partition(" ")
        name, _, value = rest.partition("\t")
        said.setdefault(kind, []).append((name, value))
    return Live(
        {**parse_values(answer.part("values"), _values(plan)), **dict(said.pop("value", ()))},
        bundle.parse_states(answer, known),
        said,
        read_unfinished(answer.part(_UNFINISHED)),
    )


def _values(plan: NodePlan) -> list[str]:
    """Return the kernel files whose first line the promises need."""
    return [*dict.fromkeys(path for _, promise in all_promises() for path in promise.values(plan))]


def _or_reason(read: Callable[[], Found]) -> Found | NumaforgeError:
    try:
        return read()
    except NumaforgeError as error:
        return error
