"""How many pods of one shape fit: tables and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numaforge.cpulist import format_cpulist
from numaforge.report.admit import in_the_way

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from rich.console import RenderableType

    from numaforge.kubelet.admission.fit import Fit, FitReport, LargestShape
    from numaforge.kubelet.admission.node import Free, FreeOnNumaNode


def fit_document(report: FitReport) -> dict[str, Any]:
    """Return what fits on one node as JSON data."""
    free = report.configured.free
    return {
        "pods": report.configured.pods,
        "policy": report.configured.policy,
        "scope": report.configured.scope,
        "policies": [
            {
                "policy": each.policy,
                "scope": each.scope,
                "pods": each.pods,
                "runs_out": list(each.runs_out),
                "reason": each.refusal.reason if each.refusal else None,
                "error": each.error,
            }
            for each in report.alternatives
        ],
        "left": free_document(free) if free else None,
        "advice": [{"change": advice.change, "pods": advice.pods} for advice in report.advice],
        "not_tried": report.not_tried,
    }


def shape_documents(resource: str | None, shapes: Iterable[LargestShape]) -> list[dict[str, Any]]:
    """Return the largest shapes as JSON data."""
    return [
        {
            "resource": resource,
            "devices": shape.devices,
            "pods": shape.pods,
            "cpus": shape.cpus,
            "memory_bytes": shape.memory_bytes,
        }
        for shape in shapes
    ]


def fit_tables(
    node: str,
    pod: str,
    report: FitReport,
    resource: str | None,
    shapes: Iterable[LargestShape],
    unknown: Sequence[str] = (),
) -> RenderableType:
    """Return what fits on one node: by policy, what is left over, what would help, the largest shapes."""
    from rich.console import Group
    from rich.text import Text

    from numaforge.report.wording import counted

    configured = report.configured
    parts: list[RenderableType] = [
        Text.assemble((node, "bold"), f"  {counted(configured.pods, 'pod')} of {pod}"),
        *([Text(f"not known of this machine, so not counted: {', '.join(unknown)}")] if unknown else []),
        Text(""),
        _policy_table(configured, report.alternatives),
    ]
    if configured.free:
        parts += [Text(""), Text("Left over", style="bold"), *left_on_node(configured.free)]
    if report.advice:
        lines = [f"  {counted(each.pods, 'pod')} with {each.change}" for each in report.advice]
        parts += [Text(""), Text("What would help", style="bold"), Text("\n".join(lines))]
    if report.not_tried:
        parts += [Text(""), Text(report.not_tried)]
    if resource and shapes:
        parts += [Text(""), Text(f"Largest Guaranteed pod by {resource}", style="bold"), _shape_table(shapes)]
    return Group(*parts, Text(""))


def hosts_table(
    reports: Iterable[tuple[str, FitReport]], pod: str, together: Sequence[int]
) -> RenderableType:
    """Return the nodes beside each other, the one with room for most pods first, and what all hold.

    `together` has how many pods run on each of the nodes that run some at once.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("node", "pods", "runs out", "pods at best", "with"):
        table.add_column(heading, justify="right" if heading.startswith("pods") else "left")
    ordered = sorted(reports, key=lambda report: -report[1].configured.pods)
    for node, report in ordered:
        configured = report.configured
        best = report.advice[0] if report.advice else None
        table.add_row(
            node,
            str(configured.pods),
            configured.error or in_the_way(configured.runs_out),
            str(best.pods) if best else "",
            best.change if best else "",
        )
    room = sum(map(bool, together))
    said = f"all {len(ordered)} nodes together: {sum(together)} pods of {pod}, on {room} of them"
    return Group(Text("Nodes compared", style="bold"), table, Text(said))


def _policy_table(configured: Fit, alternatives: Iterable[Fit]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("policy", "scope", "pods", "runs out"):
        table.add_column(heading, justify="right" if heading == "pods" else "left")
    for each in alternatives:
        mark = "  <- configured" if each is configured else ""
        runs_out = each.error or in_the_way(each.runs_out)
        table.add_row(
            each.policy, "" if each.policy == "none" else each.scope, str(each.pods), runs_out + mark
        )
    return table


_RESOURCES_ACROSS = 3  # more of them are rows: eight rails beside each other are wider than a terminal


_NUMA_NODES_FOLDED = 3


def left_on_node(free: Free) -> list[RenderableType]:
    """Return the table of what is left, with a line in place of the NUMA nodes on which nothing is."""
    from rich.text import Text

    bare = [node.id for node in free.numa_nodes if not _has_left(node)]
    if len(bare) < _NUMA_NODES_FOLDED:
        return [_left_table(free)]
    kept = replace(free, numa_nodes=tuple(node for node in free.numa_nodes if node.id not in bare))
    return [_left_table(kept), Text(f"nothing on {len(bare)} NUMA nodes: {format_cpulist(bare)}")]


def _has_left(node: FreeOnNumaNode) -> bool:
    return bool(node.cpus or node.memory_bytes or any(node.devices.values()) or any(node.hugepages.values()))


def _left_table(free: Free) -> RenderableType:
    from rich.table import Table

    from numaforge.report.wording import human_bytes

    if len(free.devices) > _RESOURCES_ACROSS or any(node.hugepages for node in free.numa_nodes):
        return _left_by_resource(free)

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("NUMA node", "exclusive CPUs", "memory", *free.devices):
        table.add_column(heading, justify="right")
    for node in free.numa_nodes:
        cpus = "-" if node.cpus is None else str(len(node.cpus))
        memory = "-" if node.memory_bytes is None else human_bytes(node.memory_bytes)
        table.add_row(str(node.id), cpus, memory, *(str(node.devices[resource]) for resource in free.devices))
    counts = (str(count) for count in free.devices.values())
    table.add_row("all", f"{free.cpu_milli / 1000:g}", human_bytes(free.memory_bytes), *counts)
    return table


def _left_by_resource(free: Free) -> RenderableType:
    """Return the same with a row for each resource and a column for each NUMA node."""
    from rich.table import Table

    from numaforge.report.wording import human_bytes

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("resource", overflow="fold")
    for heading in (*(f"NUMA {node.id}" for node in free.numa_nodes), "all"):
        table.add_column(heading, justify="right")
    cpus = ["-" if node.cpus is None else str(len(node.cpus)) for node in free.numa_nodes]
    memory = [
        "-" if node.memory_bytes is None else human_bytes(node.memory_bytes) for node in free.numa_nodes
    ]
    table.add_row("exclusive CPUs", *cpus, f"{free.cpu_milli / 1000:g}")
    table.add_row("memory", *memory, human_bytes(free.memory_bytes))
    for size in dict.fromkeys(size for node in free.numa_nodes for size in node.hugepages):
        pages = [node.hugepages.get(size, 0) for node in free.numa_nodes]
        table.add_row(size, *map(human_bytes, pages), human_bytes(sum(pages)))
    for resource, count in free.devices.items():
        near = [node.devices[resource] for node in free.numa_nodes]
        anywhere = count and not any(near)  # a device that its plugin places on no NUMA node
        table.add_row(resource, *("-" if anywhere else str(each) for each in near), str(count))
    return table


def _shape_table(shapes: Iterable[LargestShape]) -> RenderableType:
    from rich.table import Table

    from numaforge.report.wording import human_bytes

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("devices", "pods", "CPUs each", "memory each"):
        table.add_column(heading, justify="right")
    for shape in shapes:
        sizes = (str(shape.cpus), human_bytes(shape.memory_bytes)) if shape.pods else ("-", "-")
        table.add_row(str(shape.devices), str(shape.pods), *sizes)
    return table


def free_document(free: Free) -> dict[str, Any]:
    """Return what is left on a node as JSON data; huge pages where the memory manager has some."""
    from numaforge.cpulist import format_cpulist

    return {
        "cpu_milli": free.cpu_milli,
        "memory_bytes": free.memory_bytes,
        "devices": dict(free.devices),
        "numa_nodes": [
            {
                "id": node.id,
                "cpus": None if node.cpus is None else format_cpulist(node.cpus),
                "memory_bytes": node.memory_bytes,
                "devices": dict(node.devices),
                **({"hugepages_bytes": dict(node.hugepages)} if node.hugepages else {}),
            }
            for node in free.numa_nodes
        ],
    }
