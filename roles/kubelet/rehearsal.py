"""The rehearsal: the node's own kubelet starts with the planned configuration beside the running one.

It runs in a transient unit with namespaces of its own (node/rehearse.sh, node/rehearsal.sh), sees the planned
files at their paths and the machine as it will be, and leaves nothing. It knows no cluster: its login, its
authentication and its addresses are not rehearsed, nor is the cgroup driver, since systemd is out of reach.

A kubelet that is refused there may be refused for something that only the rehearsal lacks. So the present
configuration is then rehearsed as well: where that is refused, too, nothing is known of the planned one.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from numaforge.kubelet.checkpoints import (
    CPU_STATE_FILE,
    MEMORY_STATE_FILE,
    CheckpointError,
    restore_cpu_state,
    restore_memory_state,
)
from numaforge.kubelet.findings import Report
from numaforge.kubelet.last_words import last_words
from numaforge.kubelet_minors.flags import flag_value
from numaforge.kubelet_minors.options import STRICT_CPU_RESERVATION
from numaforge.kubelet_minors.values.numbers import truth
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib import shell
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.framing import Answer, Output, asking
from numaforge.machine.topology.model import NodeTopology
from numaforge.node.bundle import encoded
from numaforge.node.part import NodeState
from numaforge.roles.host.managers import KUBELET_SYSCTLS
from numaforge.roles.hugepages.expected import hugepage_totals
from numaforge.roles.hugepages.plan import pool_bytes, pools_after
from numaforge.roles.kubelet.effect import flags_after
from numaforge.roles.kubelet.files import paths
from numaforge.roles.kubelet.part import NAME, effect_on, machines
from numaforge.roles.role import kubelet as role

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.change.transaction import Transaction

LIMIT_SECONDS = 60
"""The longest rehearsal where a start of the kubelet may take the usual 120 s: half of that."""

_ALONE = (
    "--anonymous-auth=false",
    "--authentication-token-webhook=false",
    "--authorization-mode=AlwaysAllow",
    "--address=127.0.0.1",
    "--cgroup-driver=cgroupfs",
    "--pod-manifest-path=",
    "--manifest-url=",
)
"""What a kubelet without a cluster, a network, systemd and pods needs; flags count before every file."""

_SWITCHES = ("anonymous-auth", "authentication-token-webhook")
_WITH_VALUE = (
    "kubeconfig",
    "bootstrap-kubeconfig",
    "authorization-mode",
    "address",
    "cgroup-driver",
    "pod-manifest-path",
    "manifest-url",
)
"""The flags that are left out of the node's own, or replaced."""

_CGROUPS = ("cgroupRoot", "kubeReservedCgroup", "systemReservedCgroup")
_NO_SWAP = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
_SLACK_SECONDS = 60  # for the unit, and for the connection


class Verdict(StrEnum):
    """What a rehearsal says of a configuration."""

    STARTS = "starts"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Rehearsal:
    """What a kubelet finds when it starts: planned files, and files of the kernel as the plan makes them.

    `program` is the kubelet's, "" for the one that its unit runs. `copied` are folders below its root folder
    that it reads besides the plain files there; `hidden` are further folders that it would write to.
    `faces` are files of the kernel, `figures` values in such files, by path and name; `offline` are CPUs that
    go offline.
    """

    program: str
    unit: str
    runtime: str
    endpoint: str
    root_dir: str
    arguments: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    faces: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[tuple[str, str], int] = field(default_factory=dict)
    offline: tuple[int, ...] = ()
    hidden: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    limit_seconds: int = LIMIT_SECONDS

    @property
    def script(self) -> str:
        """The script whose answer `read_rehearsed` reads; it takes up to `seconds`."""
        variables = {
            "PROGRAM": shell.library("node/rehearsal"),
            "KUBELET": self.program,
            "KUBELET_UNIT": self.unit,
            "RUNTIME": self.runtime,
            "ROOT_DIR": self.root_dir,
            "ENDPOINT": self.endpoint,
            "START_SECONDS": str(self.limit_seconds),
        }
        data = "".join(f"{shell.line(entry)}\n" for entry in self._entries())
        return asking(
            shell.assignments(variables) + shell.library("node/rehearse") + shell.call("rehearse", [], data)
        )

    @property
    def seconds(self) -> int:
        """How long the script may take."""
        return self.limit_seconds + _SLACK_SECONDS

    def _entries(self) -> Iterator[str]:
        for kind, folders in (("hidden", self.hidden), ("copied", self.copied), ("cgroup", self.cgroups)):
            yield from (f"{kind} {folder}" for folder in folders)
        for kind, texts in (("file", self.files), ("face", self.faces)):
            yield from (f"{kind} {path} {encoded(text)}" for path, text in texts.items())
        yield from (f"figure {path} {name} {value}" for (path, name), value in self.figures.items())
        yield from (f"offline {cpu}" for cpu in self.offline)
        yield from (f"removed {path}" for path in self.removed)
        yield from (f"argument {argument}" for argument in self.arguments)


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal has shown.

    `words` are the kubelet's last words, whole, or why nothing is known; "" where it starts. `state` has the
    state files that the kubelet wrote, by name. `differences` are sentences: where `check` says something
    else. `cpu_seconds` are those of all its processes.
    """

    verdict: Verdict
    words: str = ""
    seconds: float | None = None
    cpu_seconds: float | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    differences: tuple[str, ...] = ()
    shared_cpus: str | None = None
    memory: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        match self.verdict:
            case Verdict.STARTS:
                took = "" if self.seconds is None else f", after {self.seconds:.1f} s"
                return f"the kubelet starts with the plan in its rehearsal{took}"
            case Verdict.REFUSED:
                return f"the kubelet refuses the plan in its rehearsal: {self.words}"
            case _:
                return f"the plan cannot be rehearsed: {self.words}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The verdict, and each difference from `check` with what to do about it."""
        return (self.sentence, *(f"{difference}: {_REPORT}" for difference in self.differences))


_REPORT = "please report it with the snapshot of the host (`numaforge capture HOST --to FILE`)"
Ask = Callable[[str, int], Answer]
"""Runs a script on the node within so many seconds, and returns its answer."""


def rehearse(goal: Goal, state: NodeState, ask: Ask) -> Rehearsed:
    """Have a node's kubelet try the plan, and compare what it does with what `check` says.

    `state` is how the node was found just before.
    """
    planned = rehearsal(goal, state)
    if isinstance(planned, str):
        return Rehearsed(Verdict.UNKNOWN, planned)
    rehearsed = read_rehearsed(ask(planned.script, planned.seconds))
    if rehearsed.verdict is Verdict.REFUSED:
        present = present_rehearsal(goal, planned)
        control = read_rehearsed(ask(present.script, present.seconds))
        if control.verdict is not Verdict.STARTS:
            why = f"the present configuration does not start there, either: {control.words}"
            return replace(rehearsed, verdict=Verdict.UNKNOWN, words=why)
    return compared(rehearsed, goal, state)


def refusal(goal: Goal, rehearsed: Rehearsed) -> str:
    """Return why a change must not be made after its rehearsal, "" where it may."""
    if rehearsed.verdict is Verdict.REFUSED:
        return "; ".join(rehearsed.lines)
    if rehearsed.verdict is Verdict.UNKNOWN and _policy(goal) == "required":
        way_out = "the profile says maintenance.rehearsal: required; when-possible goes on without one"
        return f"{rehearsed.sentence}; {way_out}"
    return ""


def to_document(rehearsed: Rehearsed) -> dict[str, Any]:
    """Return a rehearsal as JSON data; the kubelet's state files are left out."""
    return {
        "verdict": str(rehearsed.verdict),
        "words": rehearsed.words,
        "seconds": rehearsed.seconds,
        "cpu_seconds": rehearsed.cpu_seconds,
        "shared_cpus": rehearsed.shared_cpus,
        "memory": {str(node): dict(table) for node, table in rehearsed.memory.items()},
        "differences": list(rehearsed.differences),
    }


def from_document(document: Mapping[str, Any]) -> Rehearsed:
    return Rehearsed(
        Verdict(document["verdict"]),
        document["words"],
        document["seconds"],
        document["cpu_seconds"],
        shared_cpus=document["shared_cpus"],
        memory={int(node): table for node, table in document["memory"].items()},
        differences=tuple(document["differences"]),
    )


def is_wanted(goal: Goal, transaction: Transaction) -> bool:
    """Whether a change is rehearsed: where it changes what a kubelet starts with."""
    return _policy(goal) != "never" and any(part.name == NAME for part in transaction.parts)


def _policy(goal: Goal) -> str:
    return goal.plan.kubelet.rehearsal if goal.plan.kubelet else "never"


def rehearsal(goal: Goal, state: NodeState) -> Rehearsal | str:
    """Return what has to be rehearsed for a plan; a text says why that cannot be."""
    kubelet, install = goal.plan.kubelet, goal.machine.kubelet
    if kubelet is None or install is None:
        return "no kubelet is installed"
    if install.distribution is not None:
        return f"{install.distribution} runs the kubelet inside a program of its own"
    expected = effect_on(goal, kubelet, state)
    before, after = machines(goal, state)
    if back := after.online - before.online:
        return f"the plan brings the CPUs {format_cpulist(back)} online, and only the kernel can show them"
    effective = expected.after.effective
    endpoint = str(effective.get("containerRuntimeEndpoint") or "unix:///run/containerd/containerd.sock")
    runtime = next((name for name in ("containerd", "crio") if name in endpoint), None)
    if runtime is None:
        return f"the container runtime at {endpoint} is neither containerd nor CRI-O"
    config, read = state.text(kubelet.config_file), (kubelet.config_file, kubelet.drop_in)
    files = [file for file in goal.files_of(role, config) if file.path in read]
    written = [file.path for file in files]
    if config is None and kubelet.config_file not in written and flag_value(install.flags, "config"):
        return f"{kubelet.config_file}, which the kubelet reads, is not there yet"
    folder = kubelet.config_dir or install.config_dir
    logs = effective.get("podLogsDir")
    if blank := next(
        (path for path in (*written, kubelet.root_dir, endpoint) if len(path.split()) > 1), None
    ):
        return f"{blank} has a blank in its name"
    return Rehearsal(
        program=_program(kubelet.exec_start or install.exec_start),
        unit=kubelet.unit,
        runtime=runtime,
        endpoint=endpoint.removeprefix("unix://"),
        root_dir=kubelet.root_dir,
        arguments=without_cluster(flags_after(install, kubelet)),
        files={file.path: file.text for file in files},
        removed=(
            *(path for path in paths(goal.plan, goal.machine) if path not in written and path in read),
            *expected.invalid,
        ),
        faces=_faces(goal, before, after),
        figures=_figures(before, after),
        offline=tuple(sorted(before.online - after.online)),
        hidden=(str(logs),) if logs else (),
        copied=(folder,) if folder and PurePosixPath(folder).is_relative_to(kubelet.root_dir) else (),
        cgroups=tuple(str(name) for key in _CGROUPS if (name := effective.get(key)) not in (None, "", "/")),
        limit_seconds=goal.start_seconds // 2,
    )


def present_rehearsal(goal: Goal, planned: Rehearsal) -> Rehearsal:
    """Return the rehearsal of the files and the machine as they are, with the flags of now."""
    install = goal.machine.kubelet
    flags = install.flags if install else ()
    return replace(
        planned,
        program="",
        arguments=without_cluster(flags),
        files={},
        removed=(),
        faces={},
        figures={},
        offline=(),
    )


def read_rehearsed(output: Output) -> Rehearsed:
    """Read what the script of a rehearsal printed.

    Raises HostUnreachableError for an answer that is cut off.
    """
    words: dict[str, str] = {}
    state: dict[str, str] = {}
    for line in Answer.of(output).lines:
        kind, _, rest = line.partition(" ")
        if kind == "state":
            name, _, text = rest.partition(" ")
            state[name] = _decoded(text)
        elif kind in ("cannot", "outcome", "took", "cpu", "output"):
            words.setdefault(kind, rest)
    seconds, cpu_seconds = _number(words.get("took"), 100), _number(words.get("cpu"), 1_000_000)
    log = _decoded(words.get("output", ""))
    match words.get("outcome"):
        case _ if "cannot" in words:
            return Rehearsed(Verdict.UNKNOWN, words["cannot"] or "no reason was given")
        case "started":
            return Rehearsed(Verdict.STARTS, "", seconds, cpu_seconds, state)
        case "ended":
            said = last_words(log) or "\n".join(log.splitlines()[-5:]) or "it printed nothing"
            return Rehearsed(Verdict.REFUSED, said, seconds, cpu_seconds, state)
        case "late":
            late = f"after {seconds or 0:.0f} s the kubelet had neither started nor ended"
            return Rehearsed(Verdict.UNKNOWN, late, seconds, cpu_seconds)
    return Rehearsed(Verdict.UNKNOWN, "the unit of the rehearsal was ended before it was over")


def compared(rehearsed: Rehearsed, goal: Goal, state: NodeState) -> Rehearsed:
    """Return the result with what the kubelet's state files hold, and where `check` says something else."""
    kubelet = goal.plan.kubelet
    if kubelet is None or rehearsed.verdict is Verdict.UNKNOWN:
        return rehearsed
    report = effect_on(goal, kubelet, state).after
    if rehearsed.verdict is Verdict.REFUSED:
        return replace(
            rehearsed, differences=("`kubelet check` says that it starts",) if report.starts else ()
        )
    if not report.starts:
        return replace(
            rehearsed, differences=(f"`kubelet check` says that it would not start: {report.error}",)
        )
    _, after = machines(goal, state)
    shared, wrong_cpus = _shared_cpus(rehearsed, report, after)
    memory, wrong_memory = _memory(rehearsed, report, after)
    return replace(rehearsed, shared_cpus=shared, memory=memory, differences=(*wrong_cpus, *wrong_memory))


def _shared_cpus(
    rehearsed: Rehearsed, report: Report, after: NodeTopology
) -> tuple[str | None, tuple[str, ...]]:
    """Return the CPUs that the kubelet shares, and what is wrong with all CPUs that it knows."""
    text = rehearsed.state.get(CPU_STATE_FILE)
    if text is None or report.effective.get("cpuManagerPolicy") != "static":
        return None, ()
    try:
        cpus = restore_cpu_state(text, "static", KubeletVersion.parse(report.version), CPU_STATE_FILE)
    except CheckpointError as error:
        return None, (f"{CPU_STATE_FILE} reads: {error}",)
    options = report.effective.get("cpuManagerPolicyOptions") or {}
    strict = truth(str(options.get(STRICT_CPU_RESERVATION, "false")))
    pool = after.online - (report.reserved_cpus or frozenset()) if strict else after.online
    shared = format_cpulist(cpus.default)
    if cpus.known_cpus == pool:
        return shared, ()
    known = format_cpulist(cpus.known_cpus)
    return shared, (f"the kubelet has the CPUs {known} for pods, planned are {format_cpulist(pool)}",)


def _memory(
    rehearsed: Rehearsed, report: Report, after: NodeTopology
) -> tuple[dict[int, dict[str, int]], tuple[str, ...]]:
    """Return the kubelet's table of memory by NUMA node, in bytes, and where it is not as planned."""
    text = rehearsed.state.get(MEMORY_STATE_FILE)
    if text is None or report.effective.get("memoryManagerPolicy") != "Static":
        return {}, ()
    try:
        state = restore_memory_state(text, "Static", KubeletVersion.parse(report.version), MEMORY_STATE_FILE)
    except CheckpointError as error:
        return {}, (f"{MEMORY_STATE_FILE} reads: {error}",)
    tables = {
        node: (entry.get("memoryMap") or {}).get("memory") or {} for node, entry in state.machine.items()
    }
    memory = {
        node: {"total": table.get("total", 0), "allocatable": table.get("allocatable", 0)}
        for node, table in sorted(tables.items())
    }
    pages = {node.id: pool_bytes(pools_after(node, {})) for node in after.numa_nodes}
    totals = {node.id: node.memory_bytes for node in after.numa_nodes if node.memory_bytes is not None}
    wrong = [
        f"the kubelet counts {table['total']} bytes of memory on NUMA node {node}, planned are {totals[node]}"
        for node, table in memory.items()
        if node in totals and table["total"] != totals[node]
    ]
    for node, table in tables.items():
        reserved = table.get("systemReserved", 0)
        left = table.get("total", 0) - reserved - pages.get(node, 0)
        if table.get("allocatable", 0) != left:
            wrong.append(
                f"the kubelet leaves pods {table.get('allocatable', 0)} bytes of memory on NUMA node {node}, "
                f"planned are {left}"
            )
    return memory, tuple(wrong)


def _faces(goal: Goal, before: NodeTopology, after: NodeTopology) -> dict[str, str]:
    """Return the files of the kernel that a kubelet reads at its start and that the plan changes."""
    faces: dict[str, str] = {}
    had, pages = hugepage_totals(before), hugepage_totals(after)
    for path, count in pages.items():
        if had.get(path) != count:
            faces[path] = f"{count}\n"
    if faces:
        for size in {path.rpartition("/hugepages/")[2] for path in faces}:
            total = sum(count for path, count in pages.items() if path.endswith(f"/hugepages/{size}"))
            faces[f"/sys/kernel/mm/hugepages/{size}"] = f"{total}\n"
    if after.online != before.online:
        faces["/sys/devices/system/cpu/online"] = f"{format_cpulist(after.online)}\n"
    if before.swap_bytes and not after.swap_bytes:
        faces["/proc/swaps"] = _NO_SWAP
    tuning = goal.plan.tuning
    for name in KUBELET_SYSCTLS:
        if (value := tuning.sysctls.get(name)) is not None:
            faces[f"/proc/sys/{name.replace('.', '/')}"] = f"{value}\n"
    return faces


def _figures(before: NodeTopology, after: NodeTopology) -> dict[tuple[str, str], int]:
    """Return the amounts of memory that a kubelet reads and that the plan changes, in KiB."""
    amounts = [("/proc/meminfo", "MemTotal", before.memory_bytes, after.memory_bytes)]
    amounts += [("/proc/meminfo", "SwapTotal", before.swap_bytes, after.swap_bytes)]
    had = {node.id: node.memory_bytes for node in before.numa_nodes}
    amounts += [
        (f"/sys/devices/system/node/node{node.id}/meminfo", "MemTotal", had.get(node.id), node.memory_bytes)
        for node in after.numa_nodes
    ]
    return {(path, name): new // 1024 for path, name, old, new in amounts if new is not None and new != old}


def _program(exec_start: str | None) -> str:
    """Return the kubelet's program in a unit's ExecStart, "" where that starts something else."""
    try:
        first = shlex.split(exec_start or "")[0].lstrip("-:@+!")
    except (ValueError, IndexError):
        return ""
    return first if PurePosixPath(first).name == "kubelet" and first.startswith("/") else ""


def without_cluster(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of a kubelet that is to know no cluster.

    The node's own come last: the kubelet complains of one without a value only there.
    """
    kept: list[str] = []
    value_follows = False
    for flag in flags:
        name, equals, _ = flag.lstrip("-").partition("=")
        if value_follows:
            value_follows = False
        elif flag.startswith("-") and name in _WITH_VALUE:
            value_follows = not equals
        elif not (flag.startswith("-") and name in _SWITCHES):
            kept.append(flag)
    return (*_ALONE, *kept)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except ValueError:
        return ""


def _number(text: str | None, divisor: int) -> float | None:
    return int(text) / divisor if text and text.isascii() and text.isdigit() else None
