"""The scripts that a node runs before and for a measurement, and how their output is read."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from numaforge.fleet.audit.makes import make_of
from numaforge.fleet.measure.record import KINDS, MEASURED_PATH, MEASUREMENT, Figure, Measurement, NotMeasured
from numaforge.fleet.measure.tasks import TOOLS, CpuSplit, Effort, MeasureTask
from numaforge.lib import shell
from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.framing import Answer, asking
from numaforge.machine.measure_outputs import UnreadableOutputError
from numaforge.machine.snapshot.catalogue import ROOT_DIRS
from numaforge.machine.topology.model import NodeTopology
from numaforge.node.bundle import checksum
from numaforge.node.pods import Pods, read_pods

MOST_SECONDS = 1800  # the time limit of all programs together on a node
_BEYOND_LIMIT = 1.1  # of what a link carries: MB and MiB are told apart by less
_TOOLS, _TRACERS, _HOLDERS, _PODS, _NODE = "tools", "tracers", "holders", "pods", "node"
_ENDED = {
    "124": "it ran into its time limit of {seconds} s",
    "137": "it ran into its time limit of {seconds} s, and had to be killed",
    "127": "a program that it needs is missing",
    "flood": "it prints without end",
    "late": f"the {MOST_SECONDS} s for all programs were over",
}


class Readiness(NamedTuple):
    """A node before it is measured: its programs with versions, signs of use; `holders` have a GPU open."""

    programs: Mapping[str, str]
    pods: Pods
    holders: tuple[str, ...]
    boot_id: str | None
    time: str | None

    @property
    def evidence(self) -> tuple[str, ...]:
        """The signs of work on the node, a few words each; () without any."""
        unknown = tuple(f"unknown: {why}" for why in self.pods.unknown)
        return (*self.holders, *self.pods.alive, *unknown)


def readiness_script(pod_roots: Sequence[str] = ROOT_DIRS) -> str:
    """Return the read-only script whose output `read_readiness` reads."""
    versions = [f"{tool.name}={tool.version}" for tool in TOOLS.values() if tool.version]
    facts = 'echo "boot $(cat /proc/sys/kernel/random/boot_id 2> /dev/null)"; echo "time $(date -u +%FT%TZ)"'
    return asking(
        shell.library("node/pods", "fleet/measure/measure")
        + shell.call("tell_part", [_TOOLS, "tell_tools", *versions])
        + shell.call("tell_part", [_TRACERS, "tell_tracers"])
        + shell.call("tell_part", [_HOLDERS, "tell_gpu_holders"])
        + shell.call("tell_part", [_PODS, "tell_pods", *pod_roots])
        + f"begin_part {_NODE}\n{facts}\n"
    )


def read_readiness(answer: Answer) -> Readiness:
    """Read the output of `readiness_script`; raises HostUnreachableError where it is cut off."""
    programs = dict(line.partition(" ")[::2] for line in answer.part(_TOOLS) if line)
    programs |= {f"{name} tracer": "" for line in answer.part(_TRACERS) for name in line.split()}
    facts = dict(line.partition(" ")[::2] for line in answer.part(_NODE) if line)
    holders = [line.split(" ", 3)[1:] for line in answer.part(_HOLDERS) if line.startswith("holds ")]
    return Readiness(
        programs={name: version for name, version in programs.items() if name in TOOLS},
        pods=read_pods(filter(None, answer.part(_PODS))),
        holders=tuple(f"process {pid} ({name}) has {path} open" for pid, name, path in holders),
        boot_id=facts.get("boot") or None,
        time=facts.get("time") or None,
    )


def run_script(tasks: Sequence[MeasureTask], effort: Effort) -> str:
    """Return the script that runs each command as often as asked, sequentially, in one round trip."""
    calls = [
        shell.call("run_one", [f"{index}.{run}", str(task.seconds), *_load_and_words(task)])
        for index, task in enumerate(tasks)
        for run in range(effort.runs)
    ]
    return asking(
        shell.assignments({"MOST_SECONDS": str(MOST_SECONDS)})
        + shell.library("fleet/measure/measure")
        + f"run_each() {{\n:\n{''.join(calls)}}}\n"
        + shell.call("measure_all")
    )


def _load_and_words(task: MeasureTask) -> tuple[str, ...]:
    load = " ".join(map(str, sorted(task.load)))
    if not task.function:
        return (load, *task.words)
    functions = shell.library("verification/active", "fleet/measure/rdma")
    return (load, "sh", "-c", f'{functions}"$@"\n', "sh", *task.words)


def longest_seconds(tasks: Iterable[MeasureTask], effort: Effort) -> int:
    """Return the seconds within which the script ends, whatever its programs do."""
    total = sum(one.seconds + 10 for one in tasks) * effort.runs
    return min(total, MOST_SECONDS + 300) + 60


def read_runs(
    answer: Answer, tasks: Sequence[MeasureTask], effort: Effort
) -> tuple[list[Figure], list[NotMeasured]]:
    """Read what the programs printed; what is no figure is named with the reason, and costs one line."""
    figures: list[Figure] = []
    refused: list[NotMeasured] = []
    for index, task in enumerate(tasks):
        try:
            runs = [_run(answer, f"{index}.{run}", task) for run in range(effort.runs)]
            figures += _figures(task, runs)
        except UnreadableOutputError as error:
            refused.append(NotMeasured(task.kind, task.place, f"{task.program}: {error.message}"))
    return figures, refused


def _run(answer: Answer, name: str, task: MeasureTask) -> Mapping[str, float]:
    how = "".join(answer.parts.get(f"how {name}", ())).strip() or "unknown"
    output = "\n".join(answer.parts.get(f"run {name}", ())).replace("\r", "\n")
    if how != "0":
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        why = _ENDED.get(how, f"it ended with {how}").format(seconds=task.seconds)
        last = f": {lines[-1][:120]}" if lines and how not in ("flood", "late") else ""
        raise UnreadableOutputError(f"{why}{last}")
    return task.read(f"{output}\n")


def _figures(task: MeasureTask, runs: Sequence[Mapping[str, float]]) -> list[Figure]:
    """Return a command's figures; raises UnreadableOutputError where its runs differ or are impossible."""
    places = runs[0].keys()
    if any(run.keys() != places for run in runs):
        raise UnreadableOutputError("its runs tell of different places")
    if task.places is not None and (strange := sorted(places - task.places.keys())):
        raise UnreadableOutputError(f"it tells of {strange[0]}, which the machine does not have")
    return [_figure(task, location, [run[location] for run in runs]) for location in places]


def _figure(task: MeasureTask, location: str, values: Sequence[float]) -> Figure:
    kind = KINDS[task.kind]
    limit = (task.limits or {}).get(location)
    least = 0.0 if kind.more_is_better else -1.0
    for value in values:
        if not least < value <= kind.most:
            raise UnreadableOutputError(f"{value:g} {kind.unit} cannot be")
        if limit is not None and value > limit * _BEYOND_LIMIT:
            raise UnreadableOutputError(f"{value:g} {kind.unit} is more than the link carries ({limit:g})")
    return Figure(
        kind=task.kind,
        place=(task.places or {}).get(location, task.place or location),
        unit=kind.unit,
        median=_rounded(statistics.median(values)),
        lowest=_rounded(min(values)),
        highest=_rounded(max(values)),
        runs=len(values),
        program=task.program,
        limit=None if limit is None else _rounded(limit),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def measurement(
    machine: NodeTopology,
    readiness: Readiness,
    figures: Sequence[Figure],
    not_measured: Sequence[NotMeasured],
) -> Measurement:
    """Return the measurement in its stored form."""
    used = {figure.program for figure in figures} | {"numactl", "taskset", "timeout"}
    return Measurement(
        hostname=machine.hostname,
        make=str(make_of(machine)),
        measured_at=readiness.time or "",
        kernel=machine.kernel,
        boot_id=readiness.boot_id,
        plan=checksum(machine.previous_plan) if machine.previous_plan else None,
        in_use=readiness.evidence,
        programs={name: version for name, version in readiness.programs.items() if name in used},
        figures=tuple(figures),
        not_measured=tuple(not_measured),
    )


def split_of(machine: NodeTopology, reserved: str | None) -> CpuSplit:
    """Return the CPUs for pods and the reserved ones, by a cpulist; raises NumaforgeError."""
    reserved_cpus = frozenset(parse_cpulist(reserved)) if reserved else frozenset[int]()
    online = frozenset(machine.online)
    return CpuSplit(pods=online - reserved_cpus, reserved=online & reserved_cpus)


def keep_script(measurement: Measurement) -> str:
    """Return the script that stores a measurement on its node, atomically."""
    lines = MEASUREMENT.dumps(measurement)
    return asking(
        shell.library("fleet/measure/measure") + shell.call("keep_measurement", [MEASURED_PATH], data=lines)
    )


def kept_script() -> str:
    """Return the script whose output `read_kept` reads."""
    return asking(
        shell.library("fleet/measure/measure") + shell.call("tell_part", ["kept", "tell_kept", MEASURED_PATH])
    )


def read_kept(answer: Answer) -> Measurement | None:
    """Return the measurement kept on a node, None without one; raises MeasurementError."""
    text = "\n".join(answer.part("kept"))
    return MEASUREMENT.loads(text) if text.strip() else None
