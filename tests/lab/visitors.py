"""What disturbs some CPUs: interrupts counted there, and processes that may run there."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from numaforge.lib import shell
from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.framing import Answer, Output, asking
from numaforge.lib.system_units import pod_path
from numaforge.machine.topology.model import CpuSet


class Visitor(NamedTuple):
    """A process outside of pods; `cpus` is the cpulist where it may run."""

    pid: int
    name: str
    cpus: str
    cgroup: str


class Visitors(NamedTuple):
    """The interrupts of some CPUs during the count, by name, and all processes that may run there.

    A device's interrupt has its driver's name ("mlx5_comp0@pci:0000:17:00.0"), a kernel's own interrupt its
    key ("LOC", "RES").
    """

    interrupts: Mapping[str, int]
    processes: tuple[Visitor, ...]


def visitors_script(seconds: int) -> str:
    """Return the sh script, for root, that counts for `seconds`, for `read_visitors`."""
    return asking(
        Path(__file__).with_suffix(".sh").read_text("utf-8") + shell.call("tell_visitors", [str(seconds)])
    )


def read_visitors(output: Output, cpus: CpuSet) -> Visitors:
    """Return the visitors of these CPUs; raises HostUnreachableError for a truncated answer."""
    lines = Answer.of(output).lines
    counts_before, counts_after = (_counts(_lines_of(lines, kind), cpus) for kind in ("before", "after"))
    came = {name: count - counts_before.get(name, 0) for name, count in counts_after.items()}
    processes = (_visitor(line) for line in _lines_of(lines, "process"))
    return Visitors(
        interrupts={name: count for name, count in came.items() if count > 0},
        processes=tuple(
            process
            for process in processes
            if parse_cpulist(process.cpus) & cpus and not pod_path(f"0::{process.cgroup}", {})
        ),
    )


def _lines_of(lines: Sequence[str], kind: str) -> list[str]:
    return [line.removeprefix(f"{kind} ") for line in lines if line.startswith(f"{kind} ")]


def _counts(table: Sequence[str], cpus: CpuSet) -> dict[str, int]:
    """Return the sums of these CPUs' columns by name; the table's header names the CPU of each column."""
    columns = [int(word.removeprefix("CPU")) for word in table[0].split()]
    counts: dict[str, int] = {}
    for line in table[1:]:
        key, _, rest = line.partition(":")
        words = rest.split(maxsplit=len(columns))
        numbers = words[: len(columns)]
        if len(numbers) < len(columns):  # ERR and MIS are totals of the machine
            continue
        names = words[len(columns)].split() if len(words) > len(columns) else []
        name = names[-1] if key.strip().isdigit() and names else key.strip()
        mine = sum(int(number) for cpu, number in zip(columns, numbers, strict=True) if cpu in cpus)
        counts[name] = counts.get(name, 0) + mine
    return counts


def _visitor(line: str) -> Visitor:
    pid, cpus, name, cgroup = line.split("\t")
    return Visitor(int(pid), name, cpus, cgroup)
