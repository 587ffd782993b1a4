"""A host as it is now: its plan, and everything the plan speaks of, read in one login."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import pytest
from testinfra.backend.base import CommandResult
from testinfra.backend.local import LocalBackend
from testinfra.backend.ssh import SshBackend
from testinfra.host import Host

from numaforge import shell
from numaforge.bounded import Reply, TooMuchOutputError
from numaforge.errors import HostError, HostUnreachableError, NumaforgeError
from numaforge.file_content import PLAN_PATH
from numaforge.framing import Answer, Output, asking, may_have_ended
from numaforge.kernel_files import parse_values
from numaforge.kubelet.config.flags import registered_name
from numaforge.maintenance import bundle
from numaforge.maintenance.bundle import FileState
from numaforge.render import render_file
from numaforge.roles import document
from numaforge.roles.node import NodePlan
from numaforge.verification.promise import HOSTNAME, all_promises

Found = TypeVar("Found")

_NOT_ROOT = 77  # as_root.sh says so
NOT_INSTALLED = 127  # as a shell reports a program that is not there
_AS_ROOT = shell.library("verification/as_root")
_INTERACTIVE = (LocalBackend, SshBackend)
"""The connections whose program takes input, and prints what a host says as it is said."""
REPLY: ContextVar[Reply | None] = ContextVar("REPLY", default=None)
"""What replies to the host that testinfra connects to now, as `bounded.run` takes it."""


@dataclass(frozen=True)
class Live:
    """The host as it was when it was asked: first lines of files by path, file states by path.

    `said` are the lines of the probe by kind: names with what is said of them; a name may come again.
    """

    values: Mapping[str, str]
    files: Mapping[str, FileState] = field(default_factory=dict)
    said: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)

    def of(self, kind: str) -> Mapping[str, str]:
        """Return what is said by name, such as {"ib_core": "loaded"} of the kind "module"."""
        return dict(self.said.get(kind, ()))

    def lines(self, kind: str) -> Sequence[tuple[str, str]]:
        """Return every line of a kind whose names come again, such as "interrupt"."""
        return self.said.get(kind, ())

    @property
    def changed(self) -> Mapping[str, int]:
        """When each file was written, in seconds since 1970."""
        return {path: int(time) for path, time in self.lines("changed")}

    @property
    def node_name(self) -> str:
        """The name under which the kubelet registers: its flag --hostname-override, else the host's name."""
        flags = tuple(self.of("kubelet").get("arguments", "").split())
        return registered_name(flags, self.values.get(HOSTNAME))

    @property
    def kubelet_started(self) -> float:
        """When the kubelet's process started, in seconds since 1970."""
        kubelet = self.of("kubelet")
        uptime = float(kubelet["uptime"].split()[0])
        return int(kubelet["now"]) - uptime + int(kubelet["since"]) / 1e6

    def started_with(self, unit: str, file: str) -> bool:
        """Whether a unit's process has started after a file was written; False where one of them is not."""
        since, written = self.of("host").get(f"since {unit}"), self.changed.get(file)
        return since is not None and written is not None and int(since) >= written


class VerifiedNode:
    """A host under verification. What cannot be read fails every test that needs it, with the reason.

    A host that has not answered is `unreachable`: its failed tests say nothing of it.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.id: str = host.backend.get_pytest_id()
        self.unreachable = False
        self._question: _Question | None = None
        self._said = ""

    @cached_property
    def plan_or_reason(self) -> NodePlan | NumaforgeError:
        """The host's plan, or why there is none."""
        return _or_reason(self._read_plan)

    def read(self) -> None:
        """Ask the host for everything, so that no test has to wait for it."""
        if not isinstance(self.plan_or_reason, NumaforgeError):
            _ = self._live_or_reason

    @property
    def plan(self) -> NodePlan:
        """The host's plan; fails the test where there is none."""
        return self._need(self.plan_or_reason)

    @property
    def live(self) -> Live:
        """The host as it is now; fails the test where it cannot be read."""
        return self._need(self._live_or_reason)

    def value(self, path: str) -> str | None:
        """Return the first line of a file of the kernel; None where there is no such file."""
        return self.live.values.get(path)

    @cached_property
    def _live_or_reason(self) -> Live | NumaforgeError:
        return _or_reason(self._read_live)

    def _read_plan(self) -> NodePlan:
        """Read the plan; where a reply reaches the host, it says in the same login how it is."""
        ask = bundle.read_script([PLAN_PATH])
        if type(self.host.backend) not in _INTERACTIVE:
            return _plan(self._run(ask))
        waiting = REPLY.set(self._reply)
        try:
            said = self._run(f"{ask}exec sh -s\n")
        finally:
            REPLY.reset(waiting)
        if self._question is None:
            return _plan(said)
        self._said = said[self._question.after :]
        return self._question.plan

    def _reply(self, said: bytearray) -> bytes | None:
        """Return the question how a host is, once its plan has come; nothing where that cannot be used."""
        if not may_have_ended(said):
            return None
        text = _text(said)
        try:
            answer = Answer.of(text)
        except HostUnreachableError:
            return None
        with suppress(Exception):  # who reads the answer meets it again
            self._question = _Question.about(_plan(answer), after=len(text))
        script = shell.on_stdin(self._question.script) if self._question else ""
        return script.encode("utf-8", "surrogateescape")

    def _read_live(self) -> Live:
        question = self._question or _Question.about(self.plan)
        said = self._said or self._run(question.script)
        return read_live(said, question.plan, question.known)

    def prove(self, script: str) -> str:
        """Run something that takes its time on the host, as root, and return what it says.

        Skips the test where a program is missing, and fails it where the script does.
        """
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
        except TooMuchOutputError:
            raise
        except Exception as error:
            # Every connection backend has exceptions of its own; all of them mean the same here.
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
        return _text(answer.stdout_bytes)

    def _need(self, found: Found | NumaforgeError) -> Found:
        if isinstance(found, NumaforgeError):
            pytest.fail(str(found.at(self.id)), pytrace=False)
        return found


@dataclass(frozen=True)
class _Question:
    """How a host is that has a plan; it does not send the `known` texts of files.

    What it says begins `after` so many characters of its output.
    """

    plan: NodePlan
    known: Sequence[str]
    script: str
    after: int = 0

    @classmethod
    def about(cls, plan: NodePlan, after: int = 0) -> _Question:
        known = planned_texts(plan)
        return cls(plan, known, probe(plan, known), after)


def _plan(output: Output) -> NodePlan:
    """Read a host's plan from its answer; raises NumaforgeError where it has none that can be used."""
    files = bundle.parse_states(Answer.of(output))
    if PLAN_PATH not in files:
        raise HostError(f"has no {PLAN_PATH}", remedy="run `pyinfra INVENTORY deploys/site.py` on it first")
    try:
        return document.loads(files[PLAN_PATH].text)
    except NumaforgeError as error:
        raise error.at(PLAN_PATH) from error


def _text(said: bytes | bytearray) -> str:
    return said.decode("utf-8", "surrogateescape")


def _why(error: Exception) -> str:
    """Return what ssh has said; testinfra's error is the whole result, with the script."""
    result = error.args[0] if error.args else None
    if isinstance(result, CommandResult):
        lines = result.stderr.strip().splitlines()
        said = [line for line in lines if ": terminating, " not in line]  # counts what is wrong in ssh_config
        return said[-1].strip() if said else f"ssh ended with {result.rc}"
    return str(error)


def planned_texts(plan: NodePlan) -> list[str]:
    """Return the texts that files of a plan are to have, but for those that depend on what is on the host."""
    texts = []
    for file in plan.files:
        with suppress(NumaforgeError):  # its promise says why
            texts.append(render_file(plan, file))
    return texts


def probe(plan: NodePlan, known: Iterable[str] = ()) -> str:
    """Return the sh script whose answer `read_live` reads: everything that the plan speaks of.

    The host does not send texts of files that are `known`, only that a file has them.
    """
    promises = [promise for _, promise in all_promises()]
    patterns = dict.fromkeys(pattern for promise in promises for pattern in promise.patterns)
    units = dict.fromkeys(unit for promise in promises for unit in promise.units(plan))
    properties = dict.fromkeys(each for promise in promises for each in promise.properties)
    asks = dict.fromkeys(call for promise in promises for call in promise.asks(plan))
    folders = {role.name for role, promise in all_promises() if any(promise.asks(plan))}
    return asking(
        shell.library("kernel_files", "units", "verification/probe", *_shell_of(folders))
        + (shell.call("tell_units", [",".join(properties), *units]) if units else "")
        + "".join(asks)
        + shell.call("tell_part", ["values", "tell_values", *_values(plan), *patterns])
        + bundle.reading([file.path for file in plan.files], known)
    )


def _shell_of(roles: Collection[str]) -> list[str]:
    """Return what the roles ask with: their probe.sh, and the state.sh that it shares with their parts."""
    found = (f"roles/{role}/{file}" for role in sorted(roles) for file in ("state", "probe"))
    return [name for name in found if shell.exists(name)]


def read_live(output: Output, plan: NodePlan, known: Iterable[str] = ()) -> Live:
    """Return what the probe said, with the same `known` texts.

    Raises HostUnreachableError for an answer that is cut off.
    """
    answer = Answer.of(output)
    said: dict[str, list[tuple[str, str]]] = {}
    for line in answer.lines:
        kind, _, rest = line.partition(" ")
        name, _, value = rest.partition("\t")
        said.setdefault(kind, []).append((name, value))
    return Live(parse_values(answer.part("values"), _values(plan)), bundle.parse_states(answer, known), said)


def _values(plan: NodePlan) -> list[str]:
    """Return the files of the kernel of which promises name the first line."""
    return [*dict.fromkeys(path for _, promise in all_promises() for path in promise.values(plan))]


def _or_reason(read: Callable[[], Found]) -> Found | NumaforgeError:
    try:
        return read()
    except NumaforgeError as error:
        return error
