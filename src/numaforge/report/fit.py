"""How many pods of one shape fit, as tables and JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding

from numaforge.kubelet.admission.fit import Fit, FitReport, LargestShape
from numaforge.kubelet.admission.node import Free, FreeOnNumaNode
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import counted
from numaforge.report.admit import in_the_way
from numaforge.report.columns import add_row, assembled, columns, text_line
from numaforge.report.wording import human_bytes


def fit_document(report: FitReport) -> dict[str, Any]:
    """Return what fits on one node as JSON data."""
    free = report.configured.free
    return {
        "pods": report.configured.pods,
        "policy": report.configured.policy,
        "scope": report.configured.scope,
        "policies": [
            {
                "policy": alternative.policy,
                "scope": alternative.scope,
                "pods": alternative.pods,
                "runs_out": list(alternative.runs_out),
                "reason": alternative.refusal.reason if alternative.refusal else None,
                "error": alternative.error,
            }
            for alternative in report.alternatives
        ],
        "left": free_document(free) if free else None,
        "advice": [asdict(advice) for advice in report.advice],
        "not_tried": report.not_tried,
    }


def shape_documents(resource: str | None, shapes: Iterable[LargestShape]) -> list[dict[str, Any]]:
    """Return the largest shapes as JSON data."""
    return [{"resource": resource, **asdict(shape)} for shape in shapes]


def fit_tables(
    node: str,
    pod: str,
    report: FitReport,
    resource: str | None,
    shapes: Iterable[LargestShape],
    unknown: Sequence[str] = (),
    near: Sequence[str] = (),
    others: Sequence[str] = (),
) -> RenderableType:
    """Return what fits on one node: by policy, what is left over, what would help, the largest shapes.

    `near` has which of its GPUs belong together, `others` the resources that it has instead of missing ones.
    """

    configured = report.configured
    parts: list[RenderableType] = [
        assembled((node, "bold"), f"  {counted(configured.pods, 'pod')} of {pod}"),
        *([text_line(f"not known of this machine, so not counted: {', '.join(unknown)}")] if unknown else []),
        *map(text_line, others),
        text_line(""),
        _policy_table(configured, report.alternatives),
    ]
    if configured.free:
        parts += [text_line(""), text_line("Left over", "bold"), *left_on_node(configured.free)]
    if report.advice:
        lines = [f"  {counted(hint.pods, 'pod')} with {hint.change}" for hint in report.advice]
        parts += [text_line(""), text_line("What would help", "bold"), *map(text_line, lines)]
    if report.not_tried:
        parts += [text_line(""), text_line(report.not_tried)]
    if resource and shapes:
        parts += [
            text_line(""),
            text_line(f"Largest Guaranteed pod by {resource}", "bold"),
            _shape_table(shapes),
        ]
    if near:
        parts += [text_line(""), text_line("GPUs that belong together", "bold")]
        parts += [Padding(text_line(line), (0, 0, 0, 2)) for line in near]
    return Group(*parts, text_line(""))


def hosts_table(
    reports: Iterable[tuple[str, FitReport]], pod: str, together: Sequence[int]
) -> RenderableType:
    """Return the nodes in one table, the roomiest first, and the total.

    `together` has the number of pods on each of the nodes that run pods at the same time.
    """

    headers = ("node", "pods", "runs out", "pods at best", "with")
    table = columns(*headers, right=("pods", "pods at best"), wraps=headers, style="dim")
    ordered = sorted(reports, key=lambda report: -report[1].configured.pods)
    for node, report in ordered:
        configured = report.configured
        best = report.advice[0] if report.advice else None
        add_row(
            table,
            node,
            str(configured.pods),
            configured.error or in_the_way(configured.runs_out),
            str(best.pods) if best else "",
            best.change if best else "",
        )
    room = sum(map(bool, together))
    totals = f"all {len(ordered)} nodes together: {counted(sum(together), 'pod')} of {pod}, on {room} of them"
    return Group(text_line("Nodes compared", "bold"), table, text_line(totals))


def _policy_table(configured: Fit, alternatives: Iterable[Fit]) -> RenderableType:
    headers = ("policy", "scope", "pods", "runs out")
    table = columns(*headers, right=("pods",), wraps=headers, style="dim")
    for alternative in alternatives:
        mark = "  <- configured" if alternative is configured else ""
        runs_out = alternative.error or in_the_way(alternative.runs_out)
        add_row(
            table,
            alternative.policy,
            "" if alternative.policy == "none" else alternative.scope,
            str(alternative.pods),
            runs_out + mark,
        )
    return table


_RESOURCES_ACROSS = 3  # more of them become rows: eight rails as columns are wider than a terminal


_NUMA_NODES_FOLDED = 3


def left_on_node(free: Free) -> list[RenderableType]:
    """Return the table of free resources; NUMA nodes without any share one line."""

    bare = [node.id for node in free.numa_nodes if not _has_left(node)]
    if len(bare) < _NUMA_NODES_FOLDED:
        return [_left_table(free)]
    shown = replace(free, numa_nodes=tuple(node for node in free.numa_nodes if node.id not in bare))
    return [_left_table(shown), text_line(f"nothing on {len(bare)} NUMA nodes: {format_cpulist(bare)}")]


def _has_left(node: FreeOnNumaNode) -> bool:
    return bool(node.cpus or node.memory_bytes or any(node.devices.values()) or any(node.hugepages.values()))


def _left_table(free: Free) -> RenderableType:
    if len(free.devices) > _RESOURCES_ACROSS or any(node.hugepages for node in free.numa_nodes):
        return _left_by_resource(free)

    headers = ("NUMA node", "exclusive CPUs", "memory", *free.devices)
    table = columns(*headers, right=headers, wraps=headers, style="dim")
    for node in free.numa_nodes:
        cpus = "-" if node.cpus is None else str(len(node.cpus))
        memory = "-" if node.memory_bytes is None else human_bytes(node.memory_bytes)
        add_row(
            table, str(node.id), cpus, memory, *(str(node.devices[resource]) for resource in free.devices)
        )
    counts = (str(count) for count in free.devices.values())
    add_row(table, "all", f"{free.cpu_milli / 1000:g}", human_bytes(free.memory_bytes), *counts)
    return table


def _left_by_resource(free: Free) -> RenderableType:
    """Return the same with a row for each resource and a column for each NUMA node."""

    counts = (*(f"NUMA {node.id}" for node in free.numa_nodes), "all")
    table = columns("resource", *counts, right=counts, wraps=counts, folds=("resource",), style="dim")
    cpus = ["-" if node.cpus is None else str(len(node.cpus)) for node in free.numa_nodes]
    memory = [
        "-" if node.memory_bytes is None else human_bytes(node.memory_bytes) for node in free.numa_nodes
    ]
    add_row(table, "exclusive CPUs", *cpus, f"{free.cpu_milli / 1000:g}")
    add_row(table, "memory", *memory, human_bytes(free.memory_bytes))
    for size in dict.fromkeys(size for node in free.numa_nodes for size in node.hugepages):
        pages = [node.hugepages.get(size, 0) for node in free.numa_nodes]
        add_row(table, size, *map(human_bytes, pages), human_bytes(sum(pages)))
    for resource, count in free.devices.items():
        near = [node.devices[resource] for node in free.numa_nodes]
        anywhere = count and not any(near)  # a device that its plugin places on no NUMA node
        add_row(table, resource, *("-" if anywhere else str(amount) for amount in near), str(count))
    return table


def _shape_table(shapes: Iterable[LargestShape]) -> RenderableType:
    headers = ("devices", "pods", "CPUs each", "memory each")
    table = columns(*headers, right=headers, wraps=headers, style="dim")
    for shape in shapes:
        sizes = (str(shape.cpus), human_bytes(shape.memory_bytes)) if shape.pods else ("-", "-")
        add_row(table, str(shape.devices), str(shape.pods), *sizes)
    return table


def free_document(free: Free) -> dict[str, Any]:
    """Return what is left on a node as JSON data; huge pages where the memory manager has some."""

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
