"""The shapes of the virtual nodes, as data."""

from __future__ import annotations

from dataclasses import dataclass

MANAGEMENT_MAC = "52:54:00:4e:46:00"


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

    @property
    def cpus(self) -> int:
        return self.packages * self.cores_per_package * self.threads_per_core

    @property
    def memory_mib(self) -> int:
        return sum(node.memory_mib for node in self.numa_nodes)

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.numa_nodes)

    def cpus_of(self, numa_node: int) -> range:
        """Return the CPUs of a NUMA node."""
        share = self.cpus // len(self.numa_nodes)
        return range(numa_node * share, (numa_node + 1) * share)

    def distance(self, source: int, destination: int) -> int:
        """Return the relative memory latency: 10 at home, 12 within the package, 21 across."""
        if source == destination:
            return 10
        per_package = len(self.numa_nodes) // self.packages
        return 12 if source // per_package == destination // per_package else 21

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


def machines(count: int) -> dict[str, Machine]:
    """Return the machines of a lab with `count` workers by name: one large, the others small."""
    shapes = [GPU_SERVER] + [SMALL_GPU_SERVER] * (count - 1)
    return {f"numaforge-lab-{number}": shape for number, shape in enumerate(shapes, start=1)}
