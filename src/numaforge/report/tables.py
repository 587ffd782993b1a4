"""Tables of a machine and of a plan, readable at 80 columns, on a terminal or in a pipe."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted, parse_bytes
from numaforge.machine.topology.links import gpu_memory_nodes, gpu_names, nodes_of_gpus
from numaforge.machine.topology.memory_mode import DRIVER, NUMA, gpu_memory_mode
from numaforge.machine.topology.model import (
    Accelerator,
    CpuSet,
    Gpu,
    L3Cache,
    Nic,
    NodeTopology,
    NumaNode,
    Package,
    why_no_version,
)
from numaforge.report.columns import add_row, assembled, columns, filled, text_line, title_line
from numaforge.report.gpus import driver_words, gpu_notes
from numaforge.report.machine_wording import (
    accelerator_label,
    cpu_counts,
    empty_numa_nodes,
    gpu_label,
    is_empty,
    memory_and_devices,
    nic_speed,
    pcie_link,
    slices_label,
)
from numaforge.report.rails import rail_table
from numaforge.report.wording import human_bytes, joined, wrapped_cpulist

_CPULIST_WIDTH = 16  # a plan's table has two of them side by side on 80 columns


def topology_tables(topology: NodeTopology) -> RenderableType:
    """Return the tables of a machine: its facts, NUMA nodes, GPUs, NICs and rails."""
    swap = f"{human_bytes(topology.swap_bytes)} swap" if topology.swap_bytes else "no swap"
    cgroups = f"cgroup v{topology.cgroup_version}" if topology.cgroup_version else ""
    kernel = f"kernel {topology.kernel}" if topology.kernel else ""
    system = [topology.os_release.get("PRETTY_NAME", ""), kernel, topology.architecture or ""]
    sizes = [*memory_and_devices(topology), "" if topology.swap_bytes is None else swap, cgroups]
    parts: list[RenderableType] = [
        title_line(topology.hostname or "this machine", joined(system)),
        text_line(joined(cpu_counts(topology))),
        text_line(joined(sizes)),
        *_facts(topology),
        text_line(""),
        _numa_node_table(topology),
        *map(text_line, empty_numa_nodes(topology.numa_nodes, topology)),
    ]
    if topology.gpus:
        parts += [text_line(""), _gpu_table(topology.gpus), *gpu_notes(topology)]
    if topology.accelerators:
        parts += [text_line(""), _accelerator_table(topology.accelerators)]
    if topology.nics:
        parts += [text_line(""), _nic_table(topology.nics)]
    if topology.rdma_devices:
        parts += [text_line(""), rail_table(topology)]
    return Group(*parts)


def _facts(topology: NodeTopology) -> list[Text]:
    """Return the facts that are known, in one line each."""
    paths, others = ", ".join(topology.unreadable[:3]), " and others" if topology.unreadable[3:] else ""
    facts = {
        "CPUs offline": _counted_cpus(topology.offline),
        "CPUs isolated": _counted_cpus(topology.isolated),
        "Frequency": _frequency(topology),
        "Distances": _distances(topology),
        "Kubelet": _kubelet(topology),
        "NVIDIA driver": driver_words(topology.nvidia),
        "GPU memory": _gpu_memory(topology),
        "Not readable": f"{paths}{others}; capture as root to see them" if paths else "",
    }
    return [assembled((f"{name}: ", "bold"), value) for name, value in facts.items() if value]


def _gpu_memory(topology: NodeTopology) -> str:
    """Return who manages the memory of GPUs with Grace and Vera, and the evidence."""
    mode = gpu_memory_mode(topology)
    if mode is None:
        return ""
    words = {DRIVER: "managed by the driver (CDMM)", NUMA: "the node's own"}
    return f"{words.get(mode.mode or '', 'not known whose it is')}: {mode.reason}"


def _counted_cpus(cpus: CpuSet) -> str:
    return f"{format_cpulist(cpus)} ({counted(len(cpus), 'CPU')})" if cpus else ""


def _frequency(topology: NodeTopology) -> str:
    cpufreq = topology.cpufreq
    if cpufreq is None:
        return "not scaled by the kernel (no cpufreq)"
    governors = sorted(grouped((governor, cpu) for cpu, governor in cpufreq.governors.items()).items())
    words = ", ".join(f"governor {name} on {format_cpulist(cpus)}" for name, cpus in governors)
    if len(governors) == 1:
        words = f"governor {governors[0][0]}"
    offered = f"offers {', '.join(cpufreq.available)}" if cpufreq.available else ""
    return joined([cpufreq.driver or "", words, offered])


def _kubelet(topology: NodeTopology) -> str:
    kubelet = topology.kubelet
    if kubelet is None:
        return why_no_version(kubelet)
    return joined([kubelet.version or why_no_version(kubelet), kubelet.config_file or "no config file"])


def _numa_node_table(topology: NodeTopology) -> RenderableType:
    headers = ("NUMA", "Package", "CPUs", "Cores", "L3", "Memory", "Hugepages")
    table = columns(*headers, right=("NUMA", "Cores", "Memory"), wraps=("NUMA", "Package", "Cores"))
    names, memory_of = gpu_names(topology.gpus), gpu_memory_nodes(topology)
    of_gpus = nodes_of_gpus(topology)
    for node in topology.numa_nodes:
        if is_empty(node):
            continue
        without_cpus = "memory of a GPU" if node.id in of_gpus else "none"
        without_cpus = f"{names[memory_of[node.id]]} memory" if node.id in memory_of else without_cpus
        add_row(
            table,
            node.id,
            ",".join(str(one.id) for one in sorted(_packages(node, topology), key=lambda one: one.id)),
            wrapped_cpulist(format_cpulist(node.cpus), _CPULIST_WIDTH) or without_cpus,
            sum(1 for core in topology.cores if core.cpus & node.cpus),
            _l3(node, topology.l3_caches),
            human_bytes(node.memory_bytes),
            _pools(node),
        )
    return table


def _pools(node: NumaNode) -> tuple[str, ...]:
    """Return the pools that hold pages: `512 x 2Mi`, and the free pages where some are in use."""
    pools = sorted(node.hugepages.items(), key=lambda pool: parse_bytes(pool[0]))
    names = tuple(
        f"{pool.total} x {size}" + (f", {pool.free} free" if pool.free != pool.total else "")
        for size, pool in pools
        if pool.total
    )
    return names or (("none",) if pools else ())


def _packages(node: NumaNode, topology: NodeTopology) -> list[Package]:
    return [package for package in topology.packages if package.cpus & node.cpus]


def _distances(topology: NodeTopology) -> str:
    """Return the distances of NUMA nodes: by package where that suffices, else for each node."""
    packages = {node.id: {one.id for one in _packages(node, topology)} for node in topology.numa_nodes}
    kinds: dict[str, set[int]] = {
        "inside a package": set(),
        "between packages": set(),
        "to NUMA nodes without CPUs": set(),
        "to NUMA nodes of GPUs": set(),
    }
    inside, across, without, to_gpus = kinds.values()
    of_gpus = nodes_of_gpus(topology)
    for node in topology.numa_nodes:
        for neighbour, distance in node.distances.items():
            theirs = packages.get(neighbour, set())
            if neighbour == node.id or {node.id, neighbour} <= of_gpus:
                continue
            if {node.id, neighbour} & of_gpus:
                to_gpus.add(distance)
            elif not packages[node.id] or not theirs:
                without.add(distance)
            else:
                (inside if packages[node.id] & theirs else across).add(distance)
    if all(len(distances) <= 1 for distances in (inside, across, without)):
        shown = {kind: " or ".join(map(str, sorted(distances))) for kind, distances in kinds.items()}
        return ", ".join(f"{distances} {kind}" for kind, distances in shown.items() if distances)
    lines = []
    for node in topology.numa_nodes:
        by_distance = grouped(
            (distance, peer) for peer, distance in node.distances.items() if peer != node.id
        )
        others = (
            f"{distance} from {format_cpulist(peers)}" for distance, peers in sorted(by_distance.items())
        )
        lines += [f"{node.id} is {', '.join(others)}"] if len(node.distances) > 1 else []
    return "; ".join(lines)


def _l3(node: NumaNode, caches: Sequence[L3Cache]) -> str:
    shared = [cache for cache in caches if cache.cpus & node.cpus]
    sizes = Counter(
        human_bytes(cache.size_bytes) + (f" L{cache.level}" if cache.level != 3 else "") for cache in shared
    )
    return ", ".join(f"{count} x {size}" for size, count in sorted(sizes.items()))


def _gpu_table(gpus: Sequence[Gpu]) -> RenderableType:
    """Return a row for each GPU; a column without any value is left out."""
    numbered = any(gpu.index is not None for gpu in gpus)
    rows = [
        (
            "" if gpu.index is None else str(gpu.index),
            gpu.pci_address,
            _numa_node_number(gpu.numa_node),
            gpu_label(gpu),
            human_bytes(gpu.memory_bytes) if gpu.memory_bytes is not None else "",
            slices_label(gpu),
            pcie_link(gpu.link),
            "" if gpu.nvlinks is None else str(gpu.nvlinks),
        )
        for gpu in sorted(gpus, key=lambda gpu: gpu.pci_address)
    ]
    headers = ("GPU", "PCI" if numbered else "GPU", "NUMA", "Model", "Memory", "Slices", "Link", "NVLinks")
    shown = [column for column in range(len(headers)) if any(row[column] for row in rows)]
    right = ("GPU" if numbered else "", "NUMA", "Memory", "NVLinks")
    table = columns(*(headers[column] for column in shown), right=right)
    return filled(table, ([row[column] for column in shown] for row in rows))


def _accelerator_table(accelerators: Sequence[Accelerator]) -> RenderableType:
    headers = ("Accelerator", "NUMA", "Device", "Driver")
    rows = (
        (one.pci_address, _numa_node_number(one.numa_node), accelerator_label(one), one.driver or "")
        for one in sorted(accelerators, key=lambda accelerator: accelerator.pci_address)
    )
    return filled(columns(*headers, right=("NUMA",), wraps=headers[1:]), rows)


def _nic_table(nics: Sequence[Nic]) -> RenderableType:
    headers = ("NIC", "NUMA", "Interface", "RDMA", "Rate", "Driver")
    table = columns(*headers, right=("NUMA",), wraps=headers[1:])
    for nic in sorted(nics, key=lambda nic: nic.pci_address):
        names = (nic.interface or "", nic.rdma_device or "", nic_speed(nic), nic.driver or "")
        add_row(table, nic.pci_address, _numa_node_number(nic.numa_node), *names)
    return table


def _numa_node_number(numa_node: int | None) -> str:
    return "unknown" if numa_node is None else str(numa_node)
