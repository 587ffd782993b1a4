"""How many pods of one shape fit, as tables and JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Group, RenderableType

from numaforge.kubelet.admission.fit import Fit, FitReport, LargestShape
from numaforge.kubelet.admission.node import Free
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import counted
from numaforge.report.admit import in_the_way
from numaforge.report.columns import add_row, assembled, columns, filled, indented, section, text_line
from numaforge.report.wording import human_bytes


def fit_document(report: FitReport) -> dict[str, Any]:
    """Return what fits on one node as JSON data."""
    configured = report.configured
    return {
        "pods": configured.pods,
        "policy": configured.policy,
        "scope": configured.scope,
        "policies": [
            {
                "policy": fit.policy,
                "scope": fit.scope,
                "pods": fit.pods,
                "runs_out": list(fit.runs_out),
                "reason": fit.refusal.reason if fit.refusal else None,
                "error": fit.error,
            }
            for fit in report.alternatives
        ],
        "left": free_document(configured.free) if configured.free else None,
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
    """Return what fits on one node; `near` are GPUs that belong together, `others` other resources."""
    configured = report.configured
    help_lines = [f"  {counted(hint.pods, 'pod')} with {hint.change}" for hint in report.advice]
    parts: list[RenderableType] = [
        assembled((node, "bold"), f"  {counted(configured.pods, 'pod')} of {pod}"),
        *([text_line(f"not known of this machine, so not counted: {', '.join(unknown)}")] if unknown else []),
        *map(text_line, others),
        text_line(""),
        _policy_table(configured, report.alternatives),
        *section("Left over", left_on_node(configured.free) if configured.free else []),
        *section("What would help", map(text_line, help_lines)),
    ]
    if report.not_tried:
        parts += [text_line(""), text_line(report.not_tried)]
    if resource and shapes:
        parts += section(f"Largest Guaranteed pod by {resource}", [_shape_table(shapes)])
    parts += section("GPUs that belong together", indented(map(text_line, near)))
    return Group(*parts, text_line(""))


def hosts_table(
    reports: Iterable[tuple[str, FitReport]], pod: str, together: Sequence[int]
) -> RenderableType:
    """Return the nodes, the roomiest first; `together` has the pods on each at the same time."""
    rows = []
    for node, report in sorted(reports, key=lambda report: -report[1].configured.pods):
        configured, best = report.configured, report.advice[0] if report.advice else None
        runs_out = configured.error or in_the_way(configured.runs_out)
        rows.append((node, configured.pods, runs_out, *((best.pods, best.change) if best else ("", ""))))
    headers = ("node", "pods", "runs out", "pods at best", "with")
    table = columns(*headers, right=("pods", "pods at best"), wraps=headers, style="dim")
    pods, room = counted(sum(together), "pod"), sum(map(bool, together))
    totals = f"all {len(rows)} nodes together: {pods} of {pod}, on {room} of them"
    return Group(text_line("Nodes compared", "bold"), filled(table, rows), text_line(totals))


def _policy_table(configured: Fit, alternatives: Iterable[Fit]) -> RenderableType:
    headers = ("policy", "scope", "pods", "runs out")
    table = columns(*headers, right=("pods",), wraps=headers, style="dim")
    for fit in alternatives:
        mark = "  <- configured" if fit is configured else ""
        scope = "" if fit.policy == "none" else fit.scope
        add_row(table, fit.policy, scope, fit.pods, (fit.error or in_the_way(fit.runs_out)) + mark)
    return table


_RESOURCES_ACROSS = 3  # more of them become rows: eight rails as columns are wider than a terminal


_NUMA_NODES_FOLDED = 3


def left_on_node(free: Free) -> list[RenderableType]:
    """Return the table of free resources; NUMA nodes without any share one line."""
    bare = [
        node.id
        for node in free.numa_nodes
        if not (node.cpus or node.memory_bytes or any(node.devices.values()) or any(node.hugepages.values()))
    ]
    if len(bare) < _NUMA_NODES_FOLDED:
        return [_left_table(free)]
    shown = replace(free, numa_nodes=tuple(node for node in free.numa_nodes if node.id not in bare))
    return [_left_table(shown), text_line(f"nothing on {len(bare)} NUMA nodes: {format_cpulist(bare)}")]


def _left_table(free: Free) -> RenderableType:
    """Return a row for each NUMA node, or, of many resources, a column: rails are wider than a terminal."""
    nodes = free.numa_nodes
    cpus = ["-" if node.cpus is None else str(len(node.cpus)) for node in nodes]
    memory = ["-" if node.memory_bytes is None else human_bytes(node.memory_bytes) for node in nodes]
    rows = [("exclusive CPUs", *cpus, f"{free.cpu_milli / 1000:g}")]
    rows.append(("memory", *memory, human_bytes(free.memory_bytes)))
    by_resource = len(free.devices) > _RESOURCES_ACROSS or any(node.hugepages for node in nodes)
    for size in dict.fromkeys(size for node in nodes for size in node.hugepages):
        pages = [node.hugepages.get(size, 0) for node in nodes]
        rows.append((size, *map(human_bytes, pages), human_bytes(sum(pages))))
    for resource, count in free.devices.items():
        near = [node.devices[resource] for node in nodes]
        # a device that its plugin places on no NUMA node
        anywhere = by_resource and count and not any(near)
        rows.append((resource, *("-" if anywhere else str(amount) for amount in near), str(count)))
    if by_resource:
        counts = (*(f"NUMA {node.id}" for node in nodes), "all")
        table = columns("resource", *counts, right=counts, wraps=counts, folds=("resource",), style="dim")
        return filled(table, rows)
    first = ("NUMA node", *(str(node.id) for node in nodes), "all")
    headers, *by_node = zip(first, *rows, strict=True)
    return filled(columns(*headers, right=headers, wraps=headers, style="dim"), by_node)


def _shape_table(shapes: Iterable[LargestShape]) -> RenderableType:
    headers = ("devices", "pods", "CPUs each", "memory each")
    table = columns(*headers, right=headers, wraps=headers, style="dim")
    for one in shapes:
        sizes = (one.cpus, human_bytes(one.memory_bytes)) if one.pods else ("-", "-")
        add_row(table, one.devices, one.pods, *sizes)
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
