"""Several machines, or their plans, in one table; identical ones share a row."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.report.columns import columns, filled, indented, section, text_line
from numaforge.report.hostnames import folded
from numaforge.report.machine_wording import accelerator_label, gpu_label
from numaforge.report.summary import grouped_by_reason
from numaforge.report.terminal import screen
from numaforge.report.wording import human_bytes, wrapped_cpulist

_CPULIST, _CPULIST_WIDTH = "Reserved CPUs", 18  # beside the other columns of a plan on 80 columns


def machines_table(machines: Sequence[tuple[str, NodeTopology]], failed: Mapping[str, str]) -> RenderableType:
    """Return a row for each kind of machine, and below, by name, why others cannot be read."""
    rows = []
    for name, machine in machines:
        devices = Counter([*map(gpu_label, machine.gpus), *map(accelerator_label, machine.accelerators)])
        models = ", ".join(f"{count} x {model}" for model, count in devices.items()) or "none"
        sizes = (len(machine.online), len(machine.numa_nodes), human_bytes(machine.memory_bytes))
        kubelet = (machine.kubelet and machine.kubelet.version) or "none"
        rows.append(((*sizes, models, len(machine.nics), kubelet), name))
    headers = ("Machine", "CPUs", "NUMA", "Memory", "GPUs", "NICs", "Kubelet")
    return Group(*_table(headers, rows), *_why(failed))


def plans_table(plans: Sequence[tuple[str, NodePlan]], failed: Mapping[str, str]) -> RenderableType:
    """Return a row for each kind of plan, and below why others are refused."""
    rows, width = [], _CPULIST_WIDTH + max(0, screen().width - 80)
    for name, plan in plans:
        pods, version = plan.allocatable, plan.kubelet.version if plan.kubelet else "none"
        room = f"{pods.cpu_millis / 1000:g} CPUs, {human_bytes(pods.memory_bytes)}" if pods else "unknown"
        reserved = wrapped_cpulist(format_cpulist(plan.cpus.reserved), width)
        rows.append(((plan.profile, version, reserved, room, len(plan.notices)), name))
    headers = ("Node", "Profile", "Kubelet", _CPULIST, "For pods", "Notices")
    return Group(*_table(headers, rows), *_why(failed))


def _table(
    headers: Sequence[str], cells_of: Iterable[tuple[tuple[object, ...], str]]
) -> list[RenderableType]:
    rows = grouped(cells_of)
    table = columns()
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header == _CPULIST)
    return [filled(table, ((folded(names), *cells) for cells, names in rows.items()))] if rows else []


def _why(failed: Mapping[str, str]) -> list[RenderableType]:
    lines = [
        text_line(f"{folded(names)}: {reason.removeprefix(f'{names[0]}: ')}")
        for reason, names in grouped_by_reason(failed)
    ]
    return section(f"{counted(len(failed), 'machine')} left out", indented(lines), "yellow")
