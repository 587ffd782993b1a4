"""A plan for people: one screen, and every decision with its reason."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted, format_bytes, parse_bytes
from numaforge.lib.reasons import Decision
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.capacity import PredictedAllocatable
from numaforge.planning.plan import NodePlan
from numaforge.report.columns import (
    add_row,
    assembled,
    columns,
    filled,
    indented,
    section,
    text_line,
    title_line,
)
from numaforge.report.hostnames import folded
from numaforge.report.machine_wording import empty_numa_nodes, is_empty, policies_of
from numaforge.report.mig import geometry_section
from numaforge.report.slices import partitions_section
from numaforge.report.wording import Grain, human_bytes, joined, wrapped_cpulist
from numaforge.roles.kubelet.largest_pods import LargestPod

_CPULIST_WIDTH = 16  # two of them stand side by side on 80 columns

_FIRST = ("kubelet", "cpus", "memory")
"""The sections whose decisions come first; the others follow in the plan's order."""

_IN_TABLE = ("cpus.reserved", "memory", "hugepages")
_IN_POLICIES = ("kubelet.cpuManager", "kubelet.memoryManagerPolicy", "kubelet.topologyManager")
_ELSEWHERE = (*_IN_TABLE, *_IN_POLICIES)
"""What begins a subject that the table or the line of policies shows."""

_DOTTED_NAMES = ("labels",)  # the names in these sections have dots of their own
_MANY = 3  # so many settings of a group are counted, not listed
_MOST_NOTICES = 3  # on a terminal
_HEADING = "bold underline"


def plan_screen(plan: NodePlan, machine: NodeTopology | None, width: int | None) -> RenderableType:
    """Return a plan on one screen, a section and a notice in one line of `width`; None shows them whole."""
    parts = _head(plan, machine)
    if policies := policies_of(plan):
        parts.append(text_line(policies))
    if plan.largest_pods:
        phrases = (
            f"{name}: {', '.join(amounts)}" for name, *amounts in _alike_pods(plan.largest_pods, "CPU")
        )
        parts.append(text_line(f"largest pod with {joined(phrases)}"))
    rows = [*_sections(plan).items()]
    notices = [
        f"{notice_id}: {messages[0]}{f' ({len(messages) - 1} more)' if len(messages) > 1 else ''}"
        for notice_id, messages in grouped((notice.id, notice.message) for notice in plan.notices).items()
    ]
    shown = notices if width is None else notices[:_MOST_NOTICES]
    rows += [("notice", [notice]) for notice in shown]
    if rows:
        table = columns("section", "settings", wraps=("settings",))
        table.show_header = False
        table.columns[0].style = "bold"
        room = width and width - max(len(name) for name, _ in rows) - 2
        parts += [text_line(""), filled(table, ((name, _in_one_line(items, room)) for name, items in rows))]
    footer = (
        f"{counted(len(plan.decisions), 'decision')}: --why",
        f"{counted(len(plan.files), 'file')}: numaforge render",
        f"{counted(len(notices) - len(shown), 'more notice')}: --why" if len(notices) > len(shown) else "",
    )
    return Group(*parts, text_line(joined(footer), "dim"))


def plan_in_full(plan: NodePlan, machine: NodeTopology | None = None) -> RenderableType:
    """Return all of a plan, with sums and reasons; with the machine, its GPUs before and after."""
    memory = plan.memory
    sums = (memory.kube_reserved_bytes, memory.system_reserved_bytes, memory.eviction_hard_bytes)
    names = ("kubeReserved", "systemReserved", "evictionHard")
    terms = " + ".join(f"{name} {format_bytes(size)}" for name, size in zip(names, sums, strict=True))
    parts = _head(plan, machine)
    parts.append(assembled(("Memory reserved: ", "bold"), f"{terms} = {format_bytes(sum(sums))}"))
    if plan.allocatable is not None:
        parts.append(_allocatable(plan.allocatable))
    if plan.largest_pods:
        headers = ("Largest pod with", "CPUs", "Memory", "Hugepages")
        table = columns(*headers, right=("CPUs", "Memory"), wraps=("CPUs",))
        for name, cpus, *amounts in _alike_pods(plan.largest_pods):
            add_row(table, name, cpus, *amounts[:1], ", ".join(amounts[1:]))
        parts += [text_line(""), table]
    if plan.mig.gpus:
        parts += section("MIG", [geometry_section(plan.mig, machine)], _HEADING)
    if plan.amd_partitions.gpus:
        parts += section("AMD partitions", [partitions_section(plan.amd_partitions, machine)], _HEADING)
    notices = [assembled((notice.id, "bold yellow"), f": {notice.message}") for notice in plan.notices]
    files = [
        f"{file.path}  {file.mode} {file.owner}:{file.group}{'  waits for a boot' if file.waits else ''}"
        for file in plan.files
    ]
    parts += section("Notices", notices, _HEADING)
    parts += section("Decisions", _reasons(plan.decisions), _HEADING)
    parts += section("Files", map(text_line, files), _HEADING)
    return Group(*parts)


def reasons(plan: NodePlan, subject: str) -> RenderableType | None:
    """Return the decisions of a section, or below a subject, with their reasons; None without any."""
    chosen = [decision for decision in plan.decisions if decision.subject.lower().startswith(subject.lower())]
    return Group(*_reasons(chosen)) if chosen else None


def sections_of(plan: NodePlan) -> list[str]:
    """Return the sections in which the plan has decided something."""
    return list(dict.fromkeys(decision.subject.partition(".")[0] for decision in _in_order(plan.decisions)))


def _in_order(decisions: Iterable[Decision]) -> list[Decision]:
    def rank(decision: Decision) -> int:
        section = decision.subject.partition(".")[0]
        return _FIRST.index(section) if section in _FIRST else len(_FIRST)

    return sorted(decisions, key=rank)


def _group_and_name(decision: Decision) -> tuple[str, str]:
    """Return a decision's group and its name there: `tuning.sysctls` and `vm.swappiness`."""
    section, _, rest = decision.subject.partition(".")
    group, _, name = rest.partition(".")
    if section in _DOTTED_NAMES or not name:
        return section, rest
    return f"{section}.{group}", name


def _sections(plan: NodePlan) -> dict[str, list[str]]:
    """Return what else the plan sets, by section, the shortest first."""
    decisions = [decision for decision in plan.decisions if not decision.subject.startswith(_ELSEWHERE)]
    names: dict[str, dict[str, str]] = {}
    for decision in _in_order(decisions):
        group, name = _group_and_name(decision)
        names.setdefault(group, {})[name] = decision.value
    sections: dict[str, list[str]] = {}
    for group, values in names.items():
        section_name, _, group_name = group.partition(".")
        items = sections.setdefault(section_name, [])
        if group_name and len(values) >= _MANY:
            short = folded(values)
            items.append(f"{len(values)} {group_name}" if "," in short else f"{group_name} {short}")
        else:
            prefix = f"{group_name}." if group_name else ""
            items += [f"{prefix}{name} {value}".strip() for name, value in values.items()]
    sections = {name: sorted(items, key=len) for name, items in sections.items()}
    if plan.mig.gpus:
        others = [item for item in sections["mig"] if not item.startswith("gpu[")]
        sections["mig"] = [*_geometries(plan), *others]
    return sections


def _geometries(plan: NodePlan) -> list[str]:
    """Return the MIG instances of GPUs: `8 GPUs with 7 x 1g.10gb`."""
    geometries = Counter(
        ", ".join(f"{n} x {profile}" for profile, n in Counter(i.profile for i in gpu.instances).items())
        or f"MIG {gpu.mode}"
        for gpu in plan.mig.gpus
    )
    return [f"{counted(count, 'GPU')} with {geometry}" for geometry, count in geometries.items()]


def _in_one_line(items: Sequence[str], room: int | None) -> str:
    """Return the items that fit, and the number of the others."""
    text = ", ".join(items)
    if room is None or len(text) <= room:
        return text
    for shown in range(len(items) - 1, 0, -1):
        text = ", ".join([*items[:shown], f"{len(items) - shown} more"])
        if len(text) <= room:
            return text
    return f"{items[0][: room - 1]}…"


def _head(plan: NodePlan, machine: NodeTopology | None) -> list[RenderableType]:
    kubelet = f"kubelet {plan.kubelet.version}" if plan.kubelet else "no kubelet"
    return [
        title_line(plan.hostname, joined([f"profile {plan.profile}", kubelet])),
        text_line(""),
        _planned_numa_node_table(plan),
        *map(text_line, empty_numa_nodes(plan.memory.numa_nodes, machine)),
        text_line(""),
    ]


def _alike_pods(pods: Sequence[LargestPod], cpu: str = "") -> Iterator[list[str]]:
    """Yield the largest pods of a node: `1-4 nvidia.com/gpu`, `106` (of `cpu`), `1 TiB`, huge pages."""
    for _, group in groupby(pods, key=lambda pod: replace(pod, devices=0)):
        alike = list(group)
        counts, first = format_cpulist(pod.devices for pod in alike), alike[0]
        name = f"{counts} {first.resource}" if first.resource else "no devices"
        cpus = counted(first.cpus, cpu) if cpu else str(first.cpus)
        pages = (f"{human_bytes(n)} of {size}" for size, n in first.hugepages_bytes.items())
        yield [name, cpus, human_bytes(first.memory_bytes), *pages] if first.cpus else [name, "none"]


def _reasons(decisions: Iterable[Decision]) -> list[RenderableType]:
    """Return decisions with their reasons; settings of one group with one reason have it once."""
    lines: list[RenderableType] = []
    by_reason = groupby(_in_order(decisions), key=lambda one: (_group_and_name(one)[0], one.reason))
    for (group, reason), several in by_reason:
        alike = list(several)
        names = [_group_and_name(decision)[1] for decision in alike]
        if len(alike) == 1:
            lines.append(_value(alike[0].subject, alike[0].value))
        else:
            lines.append(text_line(f"{group}.{folded(names)}", "bold"))
            values = (_value(name, decision.value) for name, decision in zip(names, alike, strict=True))
            lines += indented(values, 4)
        lines += indented([text_line(reason, "dim")], 4)
    return lines


def _value(name: str, value: str) -> Text:
    return assembled((name, "bold"), f" = {value}" if value else "")


def _planned_numa_node_table(plan: NodePlan) -> RenderableType:
    nodes = plan.memory.numa_nodes
    grain = Grain.of(max((node.memory_bytes for node in nodes), default=0))
    sizes = []  # memory, its reserved part, the part for pods; the rest is huge pages, shown as counts
    for node in nodes:
        parts = (node.reserved_memory_bytes, node.allocatable_memory_bytes)
        reserved, for_pods, _ = grain.parts([*parts, max(0, node.memory_bytes - sum(parts))])
        sizes.append((grain.rounded(node.memory_bytes), reserved, for_pods))
    sums = [grain.number(sum(column)) for column in zip((0, 0, 0), *sizes, strict=True)]
    table = columns(show_footer=True)
    table.add_column("NUMA", "all", justify="right")
    for header, cpus in (("Reserved CPUs", plan.cpus.reserved), ("CPUs for pods", plan.cpus.allocatable)):
        table.add_column(header, counted(len(cpus), "CPU"), no_wrap=True)
    table.add_column(f"Memory\n{grain.unit}", sums[0], justify="right", no_wrap=True)
    table.add_column(f"Reserved\n{grain.unit}", sums[1], justify="right", no_wrap=True)
    totals = (Counter[str](), Counter[str]())
    for total, pools in zip(totals, (plan.hugepages.pools, plan.hugepages.kept), strict=True):
        for pool in pools:
            total[pool.size] += pool.pages
    table.add_column("Hugepages", "\n".join(_planned_pools(*totals)))
    table.add_column(f"For pods\n{grain.unit}", sums[2], justify="right", no_wrap=True)
    for node, grains in zip(nodes, sizes, strict=True):
        if is_empty(node):
            continue
        lists = (format_cpulist(cpus) for cpus in (node.reserved_cpus, node.cpus - node.reserved_cpus))
        cpulists = (wrapped_cpulist(cpulist, _CPULIST_WIDTH) or "none" for cpulist in lists)
        memory, of_system, of_pods = map(grain.number, grains)
        pages = _planned_pools(plan.hugepages.planned(node.id), plan.hugepages.unchanged(node.id))
        add_row(table, node.id, *cpulists, memory, of_system, pages, of_pods)
    return table


def _planned_pools(planned: Mapping[str, int], existing: Mapping[str, int]) -> tuple[str, ...]:
    """Return the planned pages, and the existing ones that stay, in lines."""
    ordered = sorted(
        [(parse_bytes(size), f"{count} x {size}") for size, count in planned.items() if count]
        + [(parse_bytes(size), f"{count} x {size} (there)") for size, count in existing.items()]
    )
    return tuple(line for _, line in ordered)


def _allocatable(allocatable: PredictedAllocatable) -> Text:
    return assembled(
        ("Allocatable predicted: ", "bold"),
        ", ".join(f"{name} {value}" for name, value in allocatable.quantities.items()),
        f" ({human_bytes(allocatable.gpu_memory_bytes)} of the memory is that of GPUs)"
        if allocatable.gpu_memory_bytes
        else "",
    )
