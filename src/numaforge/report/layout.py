"""Place one machine on a canvas: nested boxes, with every text measured before it is placed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil, log
from typing import NamedTuple, TypeAlias

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import counted, format_bytes, parse_bytes
from numaforge.machine.topology.links import gpu_memory_nodes, gpu_names, nodes_of_gpus
from numaforge.machine.topology.model import Core, CpuSet, CpuStates, Gpu, L3Cache, NodeTopology, NumaNode
from numaforge.planning.plan import NodePlan
from numaforge.report.boxes import (
    BODY,
    HEADING,
    LINE,
    PADDING,
    SMALL,
    TITLE,
    Box,
    Text,
    all_devices,
    bottom,
    broken,
    devices_box,
    fitted,
    framed,
    in_grid,
    links_box,
    panel,
    place_of,
    stacked,
    text_width,
)
from numaforge.report.machine_wording import cpu_counts, memory_and_devices, policies_of
from numaforge.report.rails import rails_box
from numaforge.report.slices import gpus_planned
from numaforge.report.wording import Grain, human_bytes, joined
from numaforge.roles.hugepages.plan import HugepagesPlan
from numaforge.roles.memory.plan import NumaNodePlan

_MARGIN = 24
_GAP = 12
_LEAST_NUMA_WIDTH = 254.0
_LEAST_CANVAS_WIDTH = 540.0
_CANVAS_ASPECT = 1.5
_CORES_ASPECT = 1.9


class Picture(NamedTuple):
    """The whole canvas: its title, its description in a paragraph, and the box that holds everything."""

    title: str
    description: str
    root: Box


class _Cell(NamedTuple):
    """The size of one thread in pixels; `font` 0 leaves out its number."""

    width: float
    height: float
    font: float


class _MemoryPart(NamedTuple):
    """A part of a NUMA node's memory: its kind (a CSS class), label, size, and pages where it has any."""

    kind: str
    label: str
    size_bytes: int
    pages: int | None = None


# The kind of a thread, and what its tooltip says of it.
_RESERVED = ("cpu-reserved", ", reserved")
_FOR_PODS = ("cpu-allocatable", ", for pods")
_CoreArea: TypeAlias = tuple[tuple[L3Cache | None, tuple[Core, ...]], ...]
"""The L3 groups of one NUMA node with their cores; None for cores without a known L3."""


class _CoreGrid(NamedTuple):
    """The number of cores in a row of an L3 group, and of groups in a row of a NUMA node."""

    cores: int
    groups: int


def lay_out(topology: NodeTopology, plan: NodePlan | None = None) -> Picture:
    """Return the picture of a machine, with what the plan for these CPUs, else PlanError, reserves."""
    if plan is not None and plan.cpus.online != topology.online:
        raise PlanError(
            f"the plan of {plan.hostname} is for the CPUs {format_cpulist(plan.cpus.online)}, "
            f"the machine has {format_cpulist(topology.online)} online",
            remedy="draw the machine that the plan was made for, or plan again",
        )
    name = topology.hostname or (plan.hostname if plan else None) or "this machine"
    machine = _machine_box(topology, plan)
    width = max(_LEAST_CANVAS_WIDTH, machine.width)
    content = stacked([_heading(name, topology, plan, width), _legend(_kinds(machine), width), machine], _GAP)
    root = framed("canvas", content, width + 2 * _MARGIN, _MARGIN)
    return Picture(f"{name}: CPUs, memory and devices by NUMA node", _description(topology, plan), root)


def topology_of(plan: NodePlan) -> NodeTopology:
    """Return what a plan knows of its machine: NUMA nodes, CPUs, memory; no cores, caches or devices."""
    return NodeTopology(
        hostname=plan.hostname,
        architecture=None,
        kernel=None,
        kernel_cmdline=None,
        memory_bytes=plan.memory.capacity_bytes,
        swap_bytes=None,
        cgroup_version=None,
        kubelet=None,
        cpus=CpuStates(online=plan.cpus.online, offline=frozenset(), isolated=frozenset()),
        packages=(),
        numa_nodes=tuple(
            NumaNode(id=node.id, cpus=node.cpus, memory_bytes=node.memory_bytes, distances={}, hugepages={})
            for node in plan.memory.numa_nodes
        ),
        cores=(),
        l3_caches=(),
        cpufreq=None,
        gpus=(),
        nics=(),
        pci_paths={},
    )


def _heading(name: str, topology: NodeTopology, plan: NodePlan | None, width: float) -> Box:
    lines, profile = [joined([*cpu_counts(topology), *memory_and_devices(topology)])], ""
    if plan is not None:
        lines += [*_reservation(plan), *filter(None, [policies_of(plan)])]
        profile = joined(
            [f"profile {plan.profile}", f"kubelet {plan.kubelet.version}" if plan.kubelet else ""]
        )
    lines += [
        f"{counted(len(cpus), 'CPU')} {state}: {format_cpulist(cpus)}"
        for state, cpus in (("offline", topology.offline), ("isolated by the kernel", topology.isolated))
        if cpus
    ]
    profile_shown = fitted([profile], width / 2, HEADING)
    title = fitted([name], width - text_width(profile_shown, HEADING) - _GAP, TITLE, bold=True)
    texts = [Text(title, 0, TITLE, TITLE, bold=True)]
    if profile_shown:
        texts.append(Text(profile_shown, width, TITLE, HEADING, anchor="end"))
    baseline = TITLE + 4.0
    for line in chain.from_iterable(broken(line, width, BODY) for line in lines):
        baseline += BODY * LINE
        texts.append(Text(line, 0, baseline, BODY, muted=True))
    return Box(("heading",), width, baseline + 4, title=joined([name, profile, *lines]), texts=tuple(texts))


def _reservation(plan: NodePlan) -> list[str]:
    return [
        f"{counted(len(cpus), 'CPU')} {purpose}: {format_cpulist(cpus) or 'none'}"
        for purpose, cpus in (("reserved", plan.cpus.reserved), ("for pods", plan.cpus.allocatable))
    ]


def _description(topology: NodeTopology, plan: NodePlan | None) -> str:
    nodes = "; ".join(
        f"{_numa_label(node)}: CPUs {format_cpulist(node.cpus) or 'none'}, {human_bytes(node.memory_bytes)}"
        for node in topology.numa_nodes
    )
    machine = joined([*cpu_counts(topology), *memory_and_devices(topology)])
    return ". ".join(filter(None, (machine, nodes, *(_reservation(plan) if plan else ()))))


_RAIL = (
    "rail: a NIC and its nearest GPUs (through PIX: one PCIe switch, PXB: several, PHB: a host bridge, "
    "NODE: several of one NUMA node, SYS: the link between NUMA nodes)"
)
# The label of each swatch, by the kinds that are drawn like it.
_LEGEND = {
    ("cpu", "memory-free"): "CPUs and ordinary memory",
    ("cpu-allocatable", "memory-pods"): "CPUs and memory for pods",
    ("cpu-reserved", "memory-reserved"): "reserved for the system and the kubelet",
    ("memory-hugepages-2Mi",): "hugepages 2Mi",
    ("memory-hugepages-1Gi",): "hugepages 1Gi",
    ("memory-hugepages",): "hugepages of another size",
    ("gpu",): "GPU",
    ("part-compute",): "partition of a GPU",
    ("part-memory",): "part of a GPU's memory",
    ("part-instance",): "GPU instance (MIG)",
    ("accelerator",): "accelerator",
    ("nic",): "NIC",
    ("nvme",): "NVMe drive",
    ("pcie-switch",): "PCIe switch",
    ("gpu-switch", "gpu-link"): "NVLink, XGMI",
    ("rail-link",): _RAIL,
}


def _legend(kinds: frozenset[str], width: float) -> Box:
    swatch, x, y, height = 12.0, 0.0, 0.0, 12.0
    entries = []
    for alike, label in _LEGEND.items():
        if kinds.isdisjoint(alike):
            continue
        lines = list(broken(label, width - swatch - 5, SMALL))
        entry_width = swatch + 5 + max(text_width(line, SMALL) for line in lines)
        if x and x + entry_width > width:
            x, y = 0.0, y + height + 6
        height = swatch * len(lines)
        baselines = ((line, swatch * number - 2.5) for number, line in enumerate(lines, 1))
        texts = tuple(Text(line, swatch + 5, baseline, SMALL) for line, baseline in baselines)
        mark = Box(("swatch", alike[0]), swatch, swatch)
        entries.append(Box(("legend-entry",), entry_width, height, x, y, texts=texts, children=(mark,)))
        x += entry_width + 16
    return Box(("legend",), width, y + height, children=tuple(entries))


def _kinds(box: Box) -> frozenset[str]:
    return frozenset(box.kinds).union(*(_kinds(child) for child in box.children))


def _machine_box(topology: NodeTopology, plan: NodePlan | None) -> Box:
    """Return packages and memory-only NUMA nodes in a grid, above devices without a NUMA node and links."""
    gpus = gpus_planned(topology, plan) if plan else {}
    nodes = _nodes_with_cpus(topology)
    without_cpus = [node for node in topology.numa_nodes if not node.cpus]
    with_devices = {place_of(device, topology) for device in all_devices(topology)}
    empty = [node for node in without_cpus if node.memory_bytes == 0 and node.id not in with_devices]
    areas = {node.id: _core_area(node.cpus, topology) for node in nodes}
    cell = _cell(topology)
    grid = _core_grid(areas.values(), cell)
    widths = (_cores(area, frozenset(), grid, cell, None).width for area in areas.values())
    widest = max(widths, default=0.0)
    single = len(topology.numa_nodes) <= 1
    inner = max(widest, (_LEAST_CANVAS_WIDTH - 4 * PADDING) if single else (_LEAST_NUMA_WIDTH - 2 * PADDING))
    cell = _widened(cell, grid, areas.values(), inner - widest)
    reserved = plan.cpus.reserved if plan else None
    cores = {node.id: _cores(areas[node.id], node.cpus, grid, cell, reserved) for node in nodes}
    drawn = {
        node.id: _numa_node(node, topology, plan, cores.get(node.id), inner, gpus)
        for node in (*nodes, *(node for node in without_cpus if node not in empty))
    }
    by_package = _by_package(topology, nodes)
    packages = [(label, [drawn[node.id] for node in members]) for label, members in by_package]
    memory_only = [drawn[node.id] for node in without_cpus if node not in empty]
    of_gpus = nodes_of_gpus(topology)
    for kind, members in (
        ("of GPUs, without memory", [node for node in empty if node.id in of_gpus]),
        ("no CPUs, no memory", [node for node in empty if node.id not in of_gpus]),
    ):
        if members:
            memory_only.append(_empty_numa_nodes(members, kind, inner))
    machine = _package_grid(packages, memory_only)
    width = machine.width
    elsewhere = [device for device in all_devices(topology) if place_of(device, topology) not in drawn]
    devices = devices_box(elsewhere, topology, width - 2 * PADDING, gpus)
    below = (
        devices and panel("Devices of no known NUMA node", [devices], width),
        links_box(topology, width),
        rails_box(topology, width),
    )
    content = stacked([machine, *filter(None, below)], _GAP)
    return Box(("machine",), width, bottom(content), children=tuple(content))


def _nodes_with_cpus(topology: NodeTopology) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes with CPUs; CPUs of no known NUMA node get their own, with the id -1."""
    nodes = tuple(node for node in topology.numa_nodes if node.cpus)
    elsewhere = topology.online.difference(*(node.cpus for node in nodes))
    if not elsewhere:
        return nodes
    memory = topology.memory_bytes if not topology.numa_nodes else None
    return (*nodes, NumaNode(id=-1, cpus=elsewhere, memory_bytes=memory, distances={}, hugepages={}))


def _by_package(topology: NodeTopology, nodes: Sequence[NumaNode]) -> list[tuple[str, list[NumaNode]]]:
    """Return NUMA nodes by package; packages that share a NUMA node form one group."""
    clusters: list[tuple[set[int], list[NumaNode]]] = []
    for node in nodes:
        ids = {package.id for package in topology.packages if package.cpus & node.cpus}
        members = [node]
        for other_ids, other_members in [one for one in clusters if one[0] & ids]:
            clusters.remove((other_ids, other_members))
            ids, members = ids | other_ids, other_members + members
        clusters.append((ids, members))
    nouns = {0: "Package unknown", 1: "Package "}
    return [
        (nouns.get(len(ids), "Packages ") + ", ".join(map(str, sorted(ids))), members)
        for ids, members in clusters
    ]


def _package_grid(packages: Sequence[tuple[str, Sequence[Box]]], memory_only: Sequence[Box]) -> Box:
    """Return the arrangement of packages and their NUMA nodes whose aspect is nearest to a screen's."""
    most = max((len(nodes) for _, nodes in packages), default=1)
    arrangements = [[_package(*one, columns) for one in packages] for columns in range(1, most + 1)]
    if memory_only:
        columns_of_rest = range(1, len(memory_only) + 1)
        rest = [_package("NUMA nodes without CPUs", memory_only, columns) for columns in columns_of_rest]
        arrangements = [[*drawn, without] for drawn in arrangements for without in rest]
    candidates = (
        in_grid("machine", drawn, columns, _GAP)
        for drawn in arrangements
        for columns in range(1, len(drawn) + 1)
    )
    return min(candidates, key=_distance_from_a_screen)


def _distance_from_a_screen(machine: Box) -> float:
    """Return the distance from a screen's aspect, the empty share, and the number of shorter last rows."""
    packages = machine.children
    area = sum(node.width * node.height for package in packages for node in package.children)
    empty = 1 - area / (machine.width * machine.height)
    aspect = abs(log((machine.width / machine.height) / _CANVAS_ASPECT))
    rows = [Counter(node.y for node in package.children) for package in packages]
    ragged = sum(counts[min(counts)] != counts[max(counts)] for counts in rows)
    return aspect + empty + ragged


def _package(label: str, nodes: Sequence[Box], columns: int) -> Box:
    grid = in_grid("numa-nodes", nodes, columns, _GAP)
    return panel(label, grid.children, grid.width + 2 * PADDING)


def _numa_node(
    node: NumaNode,
    topology: NodeTopology,
    plan: NodePlan | None,
    cores: Box | None,
    inner: float,
    gpus: Mapping[str, Gpu],
) -> Box:
    planned = next((one for one in plan.memory.numa_nodes if one.id == node.id), None) if plan else None
    devices = [one for one in all_devices(topology) if place_of(one, topology) == node.id]
    parts = (
        _numa_heading(node, topology, planned, inner),
        cores,
        _memory(node, planned, plan.hugepages if plan else None, inner),
        devices_box(devices, topology, inner, gpus),
    )
    content = stacked([part for part in parts if part is not None], 8)
    title = f"{_numa_label(node)}, CPUs {format_cpulist(node.cpus) or 'none'}"
    box = framed("numa-node", content, inner + 2 * PADDING, PADDING, title=title)
    return replace(box, data={"numa-node": str(node.id)})


def _empty_numa_nodes(nodes: Sequence[NumaNode], kind: str, inner: float) -> Box:
    """Return one box for all empty NUMA nodes: firmware keeps 8 for each GPU beside Grace."""
    ids = format_cpulist(node.id for node in nodes)
    label = f"NUMA nodes {ids}"
    kind = kind if kind.startswith("no ") else f"{len(nodes)} {kind}"
    texts = (
        Text(fitted([label], inner, HEADING, bold=True), PADDING, PADDING + HEADING - 2, HEADING, bold=True),
        Text(kind, PADDING, PADDING + 2 * HEADING + 2, SMALL, muted=True),
    )
    size = (inner + 2 * PADDING, 2 * HEADING + 2 * PADDING + 6)
    title = f"{label}: {kind}"
    return Box(("numa-node",), *size, title=title, texts=texts, data={"numa-node": ids})


def _numa_label(node: NumaNode) -> str:
    return f"NUMA node {node.id}" if node.id >= 0 else "NUMA node unknown"


def _numa_heading(node: NumaNode, topology: NodeTopology, planned: NumaNodePlan | None, inner: float) -> Box:
    label = _numa_label(node)
    gpu = gpu_memory_nodes(topology).get(node.id)
    without_cpus = "memory of a GPU" if node.id in nodes_of_gpus(topology) else "no CPUs"
    without_cpus = f"memory of {gpu_names(topology.gpus)[gpu]}" if gpu else without_cpus
    count = counted(len(node.cpus), "CPU") if node.cpus else without_cpus
    count = fitted([count], inner - text_width(label, HEADING, bold=True) - 6, SMALL)
    texts = [
        Text(label, 0, HEADING - 2, HEADING, bold=True),
        Text(count, inner, HEADING - 2, SMALL, anchor="end", muted=True),
    ]
    lines = [("CPUs", node.cpus)] if node.cpus else []
    if planned is not None and node.cpus:
        lines = [("reserved", planned.reserved_cpus), ("for pods", node.cpus - planned.reserved_cpus)]
    shown = [f"{words} {format_cpulist(cpus) or 'none'}" for words, cpus in lines]
    baseline = HEADING - 2.0
    for line in shown:
        baseline += BODY * LINE
        texts.append(Text(fitted([line], inner, BODY), 0, baseline, BODY))
    return Box(("numa-heading",), inner, baseline + 3, title=joined([label, *shown]), texts=tuple(texts))


def _core_area(cpus: CpuSet, topology: NodeTopology) -> _CoreArea:
    """Return a NUMA node's cores by L3 group, lowest CPU first; a CPU of no known core is its own core."""
    # Only broken tables have a core that spans two NUMA nodes; each node then shows its own threads of it.
    cores = [replace(core, cpus=core.cpus & cpus) for core in topology.cores if core.cpus & cpus]
    loose = cpus.difference(*(core.cpus for core in cores))
    cores += [Core(package=-1, numa_node=None, cpus=frozenset({cpu})) for cpu in loose]
    cores.sort(key=lambda core: min(core.cpus))
    groups: list[tuple[L3Cache | None, tuple[Core, ...]]] = []
    caches = (cache for cache in topology.l3_caches if cache.cpus & cpus)
    for cache in sorted(caches, key=lambda cache: min(cache.cpus)):
        if inside := tuple(core for core in cores if core.cpus <= cache.cpus):
            groups.append((cache, inside))
            cores = [core for core in cores if not core.cpus <= cache.cpus]
    if cores:
        groups.append((None, tuple(cores)))
    return tuple(groups)


def _cell(topology: NodeTopology) -> _Cell:
    """Return the size of a thread: large on a small machine, without numbers beyond 1,024 CPUs."""
    count = len(topology.online)
    if count > 1024:
        return _Cell(9, 9, 0)
    font, height = next(
        (font, height)
        for most, font, height in ((16, 12, 24), (64, 11, 20), (256, 10, 17), (1024, 9, 15))
        if count <= most
    )
    digits = text_width(str(max(topology.online, default=0)), font)
    return _Cell(max(digits + 7, height * 1.2), height, font)


_CORE_PADDING = 2.0
_CORE_GAP = 4.0
_GROUP_PADDING = 6.0
_GROUP_GAP = 6.0
_GROUP_LABEL = SMALL * LINE


def _core_grid(areas: Iterable[_CoreArea], cell: _Cell) -> _CoreGrid:
    """Return the columns that give the largest NUMA node's cores a good aspect with the fewest gaps."""
    largest = max(areas, key=lambda area: sum(len(cores) for _, cores in area), default=())
    if not largest:
        return _CoreGrid(1, 1)
    core_width, core_height = _core_size(max(len(core.cpus) for _, cores in largest for core in cores), cell)
    most = max(len(cores) for _, cores in largest)
    count = len(largest)

    def score(grid: _CoreGrid) -> tuple[float, int, int]:
        core_rows, group_rows = ceil(most / grid.cores), ceil(count / grid.groups)
        width = grid.groups * (grid.cores * (core_width + _CORE_GAP) + 2 * _GROUP_PADDING)
        height = group_rows * (core_rows * (core_height + _CORE_GAP) + 2 * _GROUP_PADDING + _GROUP_LABEL)
        empty = 1 - (most * count) / (grid.cores * core_rows * grid.groups * group_rows)
        return abs(log(width / height / _CORES_ASPECT)) + 2 * empty, grid.groups, grid.cores

    return min((_CoreGrid(c, g) for c in range(1, most + 1) for g in range(1, count + 1)), key=score)


def _widened(cell: _Cell, grid: _CoreGrid, areas: Iterable[_CoreArea], room: float) -> _Cell:
    """Return the cell widened by its share of a NUMA node's spare room, up to twice its width."""
    if not cell.font:
        return cell
    threads = max(len(core.cpus) for area in areas for _, cores in area for core in cores)
    in_a_row = grid.cores * grid.groups * _thread_columns(threads)
    return cell._replace(width=min(2 * cell.width, cell.width + max(0.0, room) / in_a_row))


def _thread_columns(threads: int) -> int:
    return threads if threads <= 2 else ceil(threads / 2)


def _core_size(threads: int, cell: _Cell) -> tuple[float, float]:
    columns = _thread_columns(threads)
    width, height = columns * (cell.width + 1) - 1, ceil(threads / columns) * (cell.height + 1) - 1
    return width + 2 * _CORE_PADDING, height + 2 * _CORE_PADDING


def _cores(area: _CoreArea, cpus: CpuSet, grid: _CoreGrid, cell: _Cell, reserved: CpuSet | None) -> Box:
    groups = [_group(cache, cores, cpus, grid.cores, cell, reserved) for cache, cores in area]
    return in_grid("cores", groups, grid.groups, _GROUP_GAP)


def _group(
    cache: L3Cache | None,
    cores: Sequence[Core],
    cpus: CpuSet,
    columns: int,
    cell: _Cell,
    reserved: CpuSet | None,
) -> Box:
    drawn = [_core(core, cell, reserved) for core in cores]
    grid = in_grid("core-grid", drawn, columns, _CORE_GAP, stretched=False)
    if cache is None:
        return Box(("group",), grid.width, grid.height, children=grid.children)
    inside = frozenset().union(*(core.cpus for core in cores))
    size = human_bytes(cache.size_bytes) if cache.size_bytes is not None else ""
    shared = f"part of an L{cache.level}" if cache.cpus - cpus else f"L{cache.level}"
    short = f"{shared} {size}".strip()
    full = joined([short, f"CPUs {format_cpulist(inside)}"])
    width = max(grid.width, text_width("L3 9.9 MiB", SMALL))
    candidates = [short] if inside == cpus else [full, f"{shared} {format_cpulist(inside)}", short]
    label = fitted(candidates, width, SMALL)
    text = Text(label, _GROUP_PADDING, _GROUP_PADDING + SMALL - 1, SMALL, muted=True)
    top = _GROUP_PADDING + _GROUP_LABEL
    outer = width + 2 * _GROUP_PADDING
    return framed("l3", grid.children, outer, _GROUP_PADDING, top=top, title=full, texts=(text,))


def _core(core: Core, cell: _Cell, reserved: CpuSet | None) -> Box:
    columns, title = _thread_columns(len(core.cpus)), f"core {format_cpulist(core.cpus)}"
    threads = []
    for position, cpu in enumerate(sorted(core.cpus)):
        kind, state = ("cpu", "") if reserved is None else _RESERVED if cpu in reserved else _FOR_PODS
        baseline = cell.height / 2 + cell.font * 0.36
        number = Text(str(cpu), cell.width / 2, baseline, cell.font, anchor="middle")
        threads.append(
            Box(
                ("thread", kind),
                cell.width,
                cell.height,
                x=_CORE_PADDING + (position % columns) * (cell.width + 1),
                y=_CORE_PADDING + (position // columns) * (cell.height + 1),
                title=f"CPU {cpu}{state}, {title}",
                texts=(number,) if cell.font else (),
                data={"cpu": str(cpu)},
            )
        )
    return Box(("core",), *_core_size(len(core.cpus), cell), title=title, children=tuple(threads))


def _memory(
    node: NumaNode, planned: NumaNodePlan | None, hugepages: HugepagesPlan | None, inner: float
) -> Box:
    total = planned.memory_bytes if planned is not None else node.memory_bytes
    parts = _memory_parts(node, planned, hugepages)
    grain = Grain.of(total or 0)
    total_shown = "unknown" if total is None else grain.shown(grain.rounded(total))
    texts = (
        Text("Memory", 0, BODY, BODY, bold=True),
        Text(total_shown, inner, BODY, BODY, anchor="end", bold=True),
    )
    top = BODY * LINE
    children = [_memory_bar(parts, total, inner).at(0, top)] if total else []
    y = top + (18 if total else 0)
    for part, grains in zip(parts, grain.parts([part.size_bytes for part in parts]), strict=True):
        children.append(_memory_row(part, grain.shown(grains), inner).at(0, y))
        y += children[-1].height + 2
    title, below = f"memory {total_shown}", tuple(children)
    return Box(("memory",), inner, max(y - 2, top), title=title, texts=texts, children=below)


def _memory_parts(
    node: NumaNode, planned: NumaNodePlan | None, hugepages: HugepagesPlan | None
) -> list[_MemoryPart]:
    if planned is None or hugepages is None:
        pools = [(size, pool.total, "") for size, pool in node.hugepages.items()]
    else:
        pools = [(size, count, "") for size, count in hugepages.planned(node.id).items()]
        pools += [(size, count, " (there)") for size, count in hugepages.unchanged(node.id).items()]
    parts = [_MemoryPart("memory-reserved", "reserved", planned.reserved_memory_bytes)] if planned else []
    for size, count, remark in sorted(pools, key=lambda pool: parse_bytes(pool[0])):
        kind = f"memory-hugepages-{size}" if size in ("2Mi", "1Gi") else "memory-hugepages"
        parts.append(_MemoryPart(kind, f"hugepages {size}{remark}", count * parse_bytes(size), count))
    parts = [part for part in parts if part.size_bytes]
    if planned is not None:
        parts.append(_MemoryPart("memory-pods", "for pods", planned.allocatable_memory_bytes))
    elif node.memory_bytes:
        free_bytes = max(0, node.memory_bytes - sum(part.size_bytes for part in parts))
        parts.append(
            _MemoryPart("memory-free", "not in the plan" if hugepages else "ordinary pages", free_bytes)
        )
    return parts


def _memory_bar(parts: Sequence[_MemoryPart], total: int, inner: float) -> Box:
    """Return a bar as wide as the NUMA node: parts have at least three pixels, taken from the widest."""
    shown = [part for part in parts if part.size_bytes > 0]
    scale = inner / max(total, sum(part.size_bytes for part in shown))
    widths = [max(3.0, part.size_bytes * scale) for part in shown]
    over = sum(widths) - inner
    if widths and over > 0:
        widths[widths.index(max(widths))] -= over
    x, children = 0.0, []
    for part, width in zip(shown, widths, strict=True):
        title = f"{part.label} {format_bytes(part.size_bytes)}"
        children.append(Box(("bar-part", part.kind), width, 14, x=x, title=title))
        x += width
    return Box(("bar",), inner, 14, children=tuple(children))


def _memory_row(part: _MemoryPart, size: str, inner: float) -> Box:
    swatch = Box(("swatch", part.kind), 9.0, 9.0, y=2)
    numbers = fitted([size if part.pages is None else f"{part.pages} = {size}"], inner * 0.6, SMALL)
    label = fitted([part.label], inner - 9.0 - 12 - text_width(numbers, SMALL), SMALL)
    texts = (Text(label, 9.0 + 6, 10, SMALL), Text(numbers, inner, 10, SMALL, anchor="end"))
    return Box(("memory-row",), inner, 13, texts=texts, children=(swatch,))
