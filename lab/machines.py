"""The shapes of the virtual nodes, as data."""

from __future__ import annotations

from dataclasses import dataclass

MANAGEMENT_MAC = "52:54:00:4e:46:00"

NODES_OF_A_GPU = 8
"""The NUMA nodes that firmware beside Grace lists for each GPU: one for each MIG instance."""
MEMORY_BLOCK_MIB = 128
"""The least memory that the kernel takes in while it runs."""


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node and what hangs on its PCI host bridge."""

    memory_mib: int
    gpus: int = 0
    """PCI placeholders that read as GPUs in the guest."""
    nics: int = 0
    rdma: bool = False
    """Whether the first NIC carries an RDMA device."""


@dataclass(frozen=True)
class Machine:
    """A machine; packages, cores and NUMA nodes divide the CPUs evenly and in order."""

    packages: int
    cores_per_package: int
    threads_per_core: int
    numa_nodes: tuple[NumaNode, ...]
    """Those with CPUs."""
    gpu: str = "0x2330"
    """The PCI id of the GPUs' model: H100 SXM5."""
    gpu_memory_mib: int = 0
    """Memory of each GPU that is a NUMA node, a multiple of a memory block. 0: GPUs have no NUMA nodes."""

    @property
    def cpus(self) -> int:
        return self.packages * self.cores_per_package * self.threads_per_core

    @property
    def memory_mib(self) -> int:
        return sum(node.memory_mib for node in self.numa_nodes)

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.numa_nodes)

    @property
    def gpu_nodes(self) -> tuple[int, ...]:
        """The NUMA nodes without CPUs that are there for the GPUs, eight for each."""
        first = len(self.numa_nodes)
        return tuple(range(first, first + NODES_OF_A_GPU * self.gpus)) if self.gpu_memory_mib else ()

    @property
    def gpu_memory_nodes(self) -> tuple[int, ...]:
        """Of these the first of each GPU, which has its memory."""
        return self.gpu_nodes[::NODES_OF_A_GPU]

    def cpus_of(self, numa_node: int) -> range:
        """Return the CPUs of a NUMA node."""
        share = self.cpus // len(self.numa_nodes)
        return range(numa_node * share, (numa_node + 1) * share)

    def distance(self, source: int, destination: int) -> int:
        """Return the relative memory latency: 10 at home, 12 within the package, 21 across.

        A GB200 has 11 within a GPU, 40 between GPUs, 80 to the CPU beside a GPU, 120 to the other one.
        """
        if source == destination:
            return 10
        if self.gpu_nodes:
            return self._distance_on_a_tray(*sorted((source, destination)))
        per_package = len(self.numa_nodes) // self.packages
        return 12 if source // per_package == destination // per_package else 21

    def _distance_on_a_tray(self, lower: int, higher: int) -> int:
        first = self.gpu_nodes[0]
        if higher < first:
            return 40
        gpu = (higher - first) // NODES_OF_A_GPU
        if lower >= first:
            return 11 if (lower - first) // NODES_OF_A_GPU == gpu else 40
        beside = [numa_node for numa_node, node in enumerate(self.numa_nodes) for _ in range(node.gpus)]
        return 80 if beside[gpu] == lower else 120

    def nic_macs(self, *, rdma_only: bool = False) -> list[str]:
        """Return the addresses of the NICs beside the management one, in the order of their NUMA nodes."""
        return [
            f"52:54:00:4e:46:{0x10 * (index + 1) + nic:02x}"
            for index, node in enumerate(self.numa_nodes)
            for nic in range(node.nics)
            if not rdma_only or (node.rdma and nic == 0)
        ]


GPU_SERVER = Machine(
    packages=2,
    cores_per_package=4,
    threads_per_core=2,
    numa_nodes=(
        NumaNode(2048, gpus=2, nics=1),
        NumaNode(2048, gpus=2),
        NumaNode(2048, gpus=2, nics=1, rdma=True),
        NumaNode(2048, gpus=2),
    ),
)

SMALL_GPU_SERVER = Machine(
    packages=2,
    cores_per_package=2,
    threads_per_core=2,
    numa_nodes=(NumaNode(1536, gpus=1, nics=1, rdma=True), NumaNode(1536, gpus=1)),
)

TRAY = Machine(
    packages=2,
    cores_per_package=2,
    threads_per_core=2,
    numa_nodes=(NumaNode(1536, gpus=2), NumaNode(1536, gpus=2)),
    gpu="0x2941",
    gpu_memory_mib=256,
)
"""A GB200 tray: 34 NUMA nodes, 2 with CPUs and 8 for each of 4 GPUs. It has no NICs: they slow a boot."""


def machines(count: int, first: Machine = GPU_SERVER) -> dict[str, Machine]:
    """Return the machines of a lab with `count` workers by name: the `first` and small ones."""
    shapes = [first] + [SMALL_GPU_SERVER] * (count - 1)
    return {f"numaforge-lab-{number}": shape for number, shape in enumerate(shapes, start=1)}
