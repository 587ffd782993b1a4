"""GPUs that belong together: the most NVLinks on one NUMA node, and NICs below the same PCIe switch."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from numaforge.lib.ordering import grouped
from numaforge.machine.topology.links import nearest_numa_node, nvlinks_between, pci_distance, pcie_switches
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.rails import carriers, distance_to_device


class MostLinked(NamedTuple):
    """The sets of GPUs on a NUMA node with the most NVLinks; `alike`: all sets have as many, by switches."""

    nvlinks: int
    sets: tuple[tuple[str, ...], ...]
    alike: bool


def most_linked(topology: NodeTopology, size: int) -> MostLinked | None:
    """Return the best sets of `size` whole GPUs; None where no two of them on one NUMA node have NVLinks."""
    by_node = grouped((nearest_numa_node(gpu, topology), gpu) for gpu in whole_gpus(topology.gpus))
    nvlinks = {
        tuple(gpu.pci_address for gpu in gpus): nvlinks_among(gpus)
        for node, members in by_node.items()
        if node is not None
        for gpus in combinations(members, size)
    }
    most = max(nvlinks.values(), default=0)
    best = tuple(gpus for gpus, count in nvlinks.items() if count == most)
    switched = all("switch" in gpu.nvlink_peers for gpu in whole_gpus(topology.gpus))
    return MostLinked(most, best, switched and len(best) == len(nvlinks)) if most else None


def nvlinks_among(gpus: Sequence[Gpu]) -> int:
    """Return the number of NVLinks between all pairs of GPUs."""
    return sum(nvlinks_between(one, peer) for one, peer in combinations(gpus, 2))


def nics_below_switches(topology: NodeTopology) -> dict[str, tuple[str, ...]]:
    """Return the NICs below the PCIe switch of each GPU, by its PCI address, where paths are known.

    NICs are RDMA devices; interfaces where there are none. A GPU below no switch has no entry.
    """
    below = {}
    for gpu in whole_gpus(topology.gpus):
        if pcie_switches(topology.pci_paths.get(gpu.pci_address, ())):
            distances = [
                (device.name, distance_to_device(gpu, device, topology))
                for device in carriers(topology.rdma_devices)
            ] or [
                (nic.interface or nic.pci_address, pci_distance(gpu, nic, topology)) for nic in topology.nics
            ]
            below[gpu.pci_address] = tuple(name for name, distance in distances if distance == "PIX")
    return below


def whole_gpus(gpus: Iterable[Gpu]) -> list[Gpu]:
    """Return the GPUs that are not cut into MIG devices, by PCI address: MIG turns NVLinks off."""
    return sorted((gpu for gpu in gpus if gpu.mig_mode != "enabled"), key=lambda gpu: gpu.pci_address)
