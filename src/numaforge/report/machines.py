"""Several machines, or their plans, in one table; identical ones share a row."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.report.columns import add_row, columns, text_line
from numaforge.report.hostnames import folded
from numaforge.report.machine_wording import accelerator_label, gpu_label
from numaforge.report.summary import grouped_by_reason
from numaforge.report.terminal import screen
from numaforge.report.wording import human_bytes, wrapped_cpulist

_CPULIST, _CPULIST_WIDTH = "Reserved CPUs", 18  # beside the other columns of a plan on 80 columns


def machines_table(machines: Sequence[tuple[str, NodeTopology]], failed: Mapping[str, str]) -> RenderableType:
    """Return a row for each kind of machine, and below why others cannot be read.

    `machines` are pairs of the name to show and the machine; `failed` has reasons by name.
    """
    headers = ("Machine", "CPUs", "NUMA", "Memory", "GPUs", "NICs", "Kubelet")
    rows = ((name, _of_machine(machine)) for name, machine in machines)
    return Group(*_table(headers, rows), *_why(failed))


def plans_table(plans: Sequence[tuple[str, NodePlan]], failed: Mapping[str, str]) -> RenderableType:
    """Return a row for each kind of plan, and below why others are refused."""
    headers = ("Node", "Profile", "Kubelet", _CPULIST, "For pods", "Notices")
    rows = ((name, _of_plan(plan)) for name, plan in plans)
    return Group(*_table(headers, rows), *_why(failed))


def _table(
    headers: Sequence[str], cells_of: Iterable[tuple[str, tuple[object, ...]]]
) -> list[RenderableType]:
    rows = grouped((cells, name) for name, cells in cells_of)
    if not rows:
        return []
    table = columns()
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header == _CPULIST)
    for cells, names in rows.items():
        add_row(table, folded(names), *cells)
    return [table]


def _of_machine(machine: NodeTopology) -> tuple[str, ...]:
    devices = Counter([*map(gpu_label, machine.gpus), *map(accelerator_label, machine.accelerators)])
    return (
        str(len(machine.online)),
        str(len(machine.numa_nodes)),
        human_bytes(machine.memory_bytes),
        ", ".join(f"{count} x {model}" for model, count in devices.items()) or "none",
        str(len(machine.nics)),
        (machine.kubelet and machine.kubelet.version) or "none",
    )


def _of_plan(plan: NodePlan) -> tuple[object, ...]:
    pods = plan.allocatable
    return (
        plan.profile,
        plan.kubelet.version if plan.kubelet else "none",
        wrapped_cpulist(format_cpulist(plan.cpus.reserved), _CPULIST_WIDTH + max(0, screen().width - 80)),
        f"{pods.cpu_millis / 1000:g} CPUs, {human_bytes(pods.memory_bytes)}" if pods else "unknown",
        str(len(plan.notices)),
    )


def _why(failed: Mapping[str, str]) -> list[RenderableType]:
    if not failed:
        return []
    lines = [
        Padding(text_line(f"{folded(names)}: {reason.removeprefix(f'{names[0]}: ')}"), (0, 0, 0, 2))
        for reason, names in grouped_by_reason(failed)
    ]
    return [text_line(""), text_line(f"{counted(len(failed), 'machine')} left out", "yellow"), *lines]
