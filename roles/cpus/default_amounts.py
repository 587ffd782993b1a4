"""The default reservations where the profile names no amount: they grow with the machine, up to a cap.

The numbers are our choice; docs/reserved.md compares them with other tools' on the same machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.quantity import format_bytes

if TYPE_CHECKING:
    from numaforge.machine.topology.model import Accelerator, Gpu, Nic, NodeTopology, Nvme

MIB = 2**20

CPUS_PER_RESERVED = 32
DEVICES_PER_RESERVED = 8
LEAST_PART_OF_CORES = 16  # at most a sixteenth of the cores, but one

DEFAULT_MAX_PODS = 110  # the kubelet's own (pkg/kubelet/apis/config/v1beta1/defaults.go)
KUBE_MIB = 255
KUBE_MIB_PER_POD = 11
KUBE_PART = 8
SYSTEM_PART = 64
SYSTEM_MOST = 4 * 2**30


@dataclass(frozen=True)
class Devices:
    """The devices that interrupt the host's CPUs: how many of each class, and how many by NUMA node."""

    by_class: dict[str, int]
    by_numa_node: dict[int, int]

    @property
    def count(self) -> int:
        return sum(self.by_class.values())

    def __str__(self) -> str:
        """Return `8 GPUs, 12 NICs`."""
        return ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in self.by_class.items())


def interrupting_devices(topology: NodeTopology) -> Devices:
    """Return the GPUs, accelerators, NICs and NVMe drives that the host's own drivers serve.

    Interrupts of devices bound to vfio-pci go to a guest. The NUMA node of a device may be unknown.
    """
    classes: dict[str, Sequence[Gpu | Accelerator | Nic | Nvme]] = {
        "GPU": topology.gpus,
        "accelerator": topology.accelerators,
        "NIC": topology.nics,
        "NVMe drive": topology.nvmes,
    }
    by_class: dict[str, int] = {}
    by_node: dict[int, int] = {}
    for name, devices in classes.items():
        places = {device.pci_address: device.numa_node for device in devices if device.driver != "vfio-pci"}
        if places:
            by_class[name] = len(places)
        for node in places.values():
            if node is not None:
                by_node[node] = by_node.get(node, 0) + 1
    return Devices(by_class, dict(sorted(by_node.items())))


def default_cores(cores: int, cpus: int, devices: int) -> int:
    """Return how many cores are reserved on a machine of `cores` physical cores and `cpus` threads.

    One CPU for each 32, one for each 8 devices that interrupt, as whole cores; at most a sixteenth of the
    cores, and at least one.
    """
    reserved_cpus = -(-cpus // CPUS_PER_RESERVED) - (-devices // DEVICES_PER_RESERVED)
    return min(-(-reserved_cpus * cores // cpus), most_cores(cores))


def most_cores(cores: int) -> int:
    """Return the cap of `default_cores`."""
    return max(1, cores // LEAST_PART_OF_CORES)


class DefaultMemory(NamedTuple):
    """The two amounts, in bytes, and why."""

    kube: int
    kube_reason: str
    system: int
    system_reason: str


def default_memory(usable: int, max_pods: int) -> DefaultMemory:
    """Return kubeReserved and systemReserved, in whole MiB, out of `usable` bytes.

    `usable` is what huge pages and the eviction threshold leave beside CPUs.
    The kubelet and the runtime grow with the pods (awslabs/amazon-eks-ami: nodeadm, 255Mi and 11Mi for each),
    the system's daemons with the machine. The first is at most an eighth, the second a 64th, at most 4Gi.
    """
    kube = min((KUBE_MIB + KUBE_MIB_PER_POD * max(0, max_pods)) * MIB, usable // KUBE_PART)
    system = min(usable // SYSTEM_PART, SYSTEM_MOST)
    return DefaultMemory(
        kube=kube // MIB * MIB,
        kube_reason=f"{KUBE_MIB}Mi and {KUBE_MIB_PER_POD}Mi for each of {max_pods} pods, at most an eighth "
        "of the memory for ordinary pages beside CPUs",
        system=system // MIB * MIB,
        system_reason="a 64th of the memory for ordinary pages beside CPUs, at most "
        f"{format_bytes(SYSTEM_MOST)}",
    )
