"""Who comes to some CPUs: interrupts that were counted there, and processes that may run there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numaforge import shell
from numaforge.cpulist import parse_cpulist
from numaforge.framing import Answer, Output, asking
from numaforge.topology.model import CpuSet


@dataclass(frozen=True)
class Visitor:
    """A process outside of pods; `cpus` is the cpulist on which it may run."""

    pid: int
    name: str
    cpus: str
    cgroup: str


@dataclass(frozen=True)
class Visitors:
    """Interrupts that some CPUs got while it was counted, by name, and who may run there; none is left out.

    The name of a device's interrupt is what the driver calls it ("mlx5_comp0@pci:0000:17:00.0"), that of the
    kernel's own is its key ("LOC", "RES").
    """

    interrupts: Mapping[str, int]
    processes: tuple[Visitor, ...]


def visitors_script(seconds: int) -> str:
    """Return the sh script, for root, that counts for so long and whose answer `read_visitors` reads."""
    return asking(shell.library("verification/visitors") + shell.call("tell_visitors", [str(seconds)]))


def read_visitors(output: Output, cpus: CpuSet) -> Visitors:
    """Return what came to these CPUs; raises HostUnreachableError for an answer that is cut off."""
    lines = Answer.of(output).lines
    before, after = (_counts(_told(lines, kind), cpus) for kind in ("before", "after"))
    came = {name: count - before.get(name, 0) for name, count in after.items()}
    processes = (_visitor(line) for line in _told(lines, "process"))
    return Visitors(
        interrupts={name: count for name, count in came.items() if count > 0},
        processes=tuple(
            each
            for each in processes
            if parse_cpulist(each.cpus) & cpus and not each.cgroup.strip("/").startswith("kubepods")
        ),
    )


def _told(lines: Sequence[str], kind: str) -> list[str]:
    return [line.removeprefix(f"{kind} ") for line in lines if line.startswith(f"{kind} ")]


def _counts(table: Sequence[str], cpus: CpuSet) -> dict[str, int]:
    """Sum up the columns of these CPUs by name; the head of the table names the CPU of each column."""
    columns = [int(word.removeprefix("CPU")) for word in table[0].split()]
    counts: dict[str, int] = {}
    for line in table[1:]:
        key, _, rest = line.partition(":")
        words = rest.split(maxsplit=len(columns))
        numbers = words[: len(columns)]
        if len(numbers) < len(columns):  # ERR and MIS are counted for the machine
            continue
        told = words[len(columns)].split() if len(words) > len(columns) else []
        name = told[-1] if key.strip().isdigit() and told else key.strip()
        mine = sum(int(number) for cpu, number in zip(columns, numbers, strict=True) if cpu in cpus)
        counts[name] = counts.get(name, 0) + mine
    return counts


def _visitor(line: str) -> Visitor:
    pid, cpus, name, cgroup = line.split("\t")
    return Visitor(int(pid), name, cpus, cgroup)
