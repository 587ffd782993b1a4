"""How pods are affected by NUMA nodes without CPUs or memory, and by uneven packages."""

from collections.abc import Iterator

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import format_bytes
from numaforge.lib.reasons import Notice
from numaforge.machine.topology.links import nodes_of_gpus
from numaforge.machine.topology.model import NodeTopology, NumaNode

# The kernel and the firmware take some of each package's memory, in unequal amounts.
_EVEN_PART = 16

# Older kernels count a NUMA node's present pages, a few percent more than its managed pages.
_ALIKE_PART = 16


def gpu_memory_bytes(topology: NodeTopology) -> int:
    """Return how many bytes of the machine's memory are known to be GPU memory (Grace without CDMM)."""
    nodes = nodes_of_gpus(topology)
    return sum(node.memory_bytes or 0 for node in topology.numa_nodes if node.id in nodes)


def numa_notices(topology: NodeTopology) -> Iterator[Notice]:
    """Yield a notice for each kind of unusual NUMA node or package; unknown memory causes none."""
    bare = [node for node in topology.numa_nodes if node.cpus and node.memory_bytes == 0]
    if bare:
        yield Notice(
            "cpus-without-memory",
            f"{_listing(bare)} have CPUs and no memory: pods there use memory of another NUMA node, and "
            "under single-numa-node with the memory manager's Static no pod gets both from one",
        )
    yield from _without_cpus(topology)
    yield from _uneven_packages(topology)
    if (disagree := disagreeing_totals(topology)) is not None:
        yield Notice(
            "memory-differs",
            f"{disagree}: "
            "Allocatable follows MemTotal, the memory manager the NUMA nodes, and a pod has to fit both",
        )


def disagreeing_totals(topology: NodeTopology) -> str | None:
    """Return how the kubelet's two memory totals disagree, as with hot-plugged memory; else None."""
    sizes = [node.memory_bytes for node in topology.numa_nodes]
    total, known_sizes = topology.memory_bytes, [size for size in sizes if size is not None]
    if (
        not total
        or not known_sizes
        or len(known_sizes) < len(sizes)
        or abs(total - sum(known_sizes)) <= total // _ALIKE_PART
    ):
        return None
    return f"MemTotal is {format_bytes(total)}, and the NUMA nodes have {format_bytes(sum(known_sizes))}"


def _without_cpus(topology: NodeTopology) -> Iterator[Notice]:
    nodes = [node for node in topology.numa_nodes if not node.cpus and node.memory_bytes]
    if not nodes:
        return
    gpus = nodes_of_gpus(topology)
    of_gpus = [node for node in nodes if node.id in gpus]
    unexplained = [node for node in nodes if node.id not in gpus]
    unsaid = any(gpu.memory_numa_node is None for gpu in topology.gpus)
    kinds = "CXL, HBM or a GPU's" if unsaid else "CXL or HBM"
    parts = [
        f"{_listing(group)} ({format_bytes(sum(node.memory_bytes or 0 for node in group))}, {kind})"
        for group, kind in ((of_gpus, "memory of GPUs"), (unexplained, f"{kinds} as it seems"))
        if group
    ]
    yield Notice(
        "memory-without-cpus",
        f"{' and '.join(parts)} have memory and no CPUs: Allocatable counts it, a pod gets it only when "
        "the memory beside its CPUs is used up, and under single-numa-node with the memory manager's Static "
        "a pod with CPUs of its own never does",
    )


def _uneven_packages(topology: NodeTopology) -> Iterator[Notice]:
    if len(topology.packages) < 2:
        return
    cpus = [len(package.cpus) for package in topology.packages]
    memory = [
        sum(node.memory_bytes or 0 for node in topology.numa_nodes if node.cpus and node.cpus <= package.cpus)
        for package in topology.packages
    ]
    is_known = all(memory) and all(node.memory_bytes is not None for node in topology.numa_nodes)
    uneven = [
        *([f"{min(cpus)} to {max(cpus)} CPUs"] if len({*cpus}) > 1 else []),
        *(
            [f"{format_bytes(min(memory))} to {format_bytes(max(memory))} of memory"]
            if is_known and max(memory) - min(memory) > max(memory) // _EVEN_PART
            else []
        ),
    ]
    if uneven:
        yield Notice(
            "uneven-packages",
            f"packages have {' and '.join(uneven)}: the largest pod that stays in one fits only the larger",
        )


def _listing(nodes: list[NumaNode]) -> str:
    return f"NUMA nodes {format_cpulist({node.id for node in nodes})}"
