"""What a machine's device plugins advertise: GPUs, MIG devices, replicas of both, RDMA tokens.

NVIDIA/k8s-device-plugin, internal/rm/device_map.go: with migStrategy mixed each kind of MIG device is a
resource of its own, with single they are nvidia.com/gpu, with none GPUs are advertised whole. A GPU with MIG
is never advertised beside its MIG devices. MIG devices and replicas are near the NUMA node of their GPU.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from numaforge.kubelet.admission.amd_resources import AMD_PLUGIN, AmdPlugin, amd_devices
from numaforge.kubelet.admission.device_manager import Device, Inventory
from numaforge.kubelet.admission.nvidia_resources import GPU, SHARED, mig_resource
from numaforge.kubelet.admission.preferred import DISTRIBUTED
from numaforge.lib.ordering import grouped
from numaforge.machine.topology.gpu_models import countable_gpus, mig_devices
from numaforge.machine.topology.links import direct_nvlinks, pci_distance
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.vendors import AMD, HABANA, INTEL, NVIDIA, listed_by_nvml

_RESOURCES = {NVIDIA: GPU, INTEL: "gpu.intel.com/xe"}
ACCELERATORS = {HABANA: "habana.ai/gaudi"}
"""The resources of accelerator plugins, by PCI vendor id: counted, and never planned.

Whether Habana's plugin publishes NUMA nodes is not public; its devices have none here.
"""


_PCIE_SCORES = {"PIX": 50, "PXB": 40, "PHB": 30, "NODE": 20, "SYS": 10}
_NVLINK_SCORE, _MOST_NVLINKS = 100, 18
"""go-gpuallocator, calculateGPUPairScore. Links to a switch are in no score, as no GPU is at their end."""


@dataclass(frozen=True)
class Shared:
    """How NVIDIA's device plugin shares devices: replicas per device, by resource.

    `renamed` is its renameByDefault, `policy` its sharedDevicesAllocationPolicy. `one_per_request`: it
    rejects containers that request more than one: failRequestsGreaterThanOne, and always with MPS.
    """

    replicas: Mapping[str, int] = field(default_factory=dict)
    renamed: bool = False
    one_per_request: bool = False
    policy: str = DISTRIBUTED

    def advertised_as(self, name: str) -> str:
        """Return the name under which the plugin advertises the devices of a resource."""
        return f"{name}{SHARED}" if self.renamed and name in self.replicas else name


NOT_SHARED = Shared()


def inventory_of(
    topology: NodeTopology,
    mig_strategy: str = "mixed",
    shared: Shared = NOT_SHARED,
    amd: AmdPlugin = AMD_PLUGIN,
) -> dict[str, tuple[Device, ...]]:
    """Return a machine's GPUs as their vendor's device plugin advertises them, by UUID or index.

    AMD's are named by PCI address. GPUs passed through to virtual machines are left out, and so are MIG
    devices whose profile has no known name.
    """
    by_resource = _by_gpu(topology, mig_strategy, shared.policy, amd)
    counted = dict(_advertised(resource, devices, shared) for resource, devices in by_resource.items())
    return counted | _accelerators(topology)


def gpus_of_devices(topology: NodeTopology, inventory: Inventory) -> dict[tuple[str, str], Gpu]:
    """Return the GPU of each device that is a whole GPU, by resource and id.

    Devices of another list than this machine's plugins advertise have none.
    """
    by_resource = _by_gpu(topology, "mixed", DISTRIBUTED, AMD_PLUGIN)
    return {
        (resource, device.id): gpu
        for resource, devices in by_resource.items()
        if tuple(inventory.get(resource, ())) == tuple(device for _, device in devices)
        for gpu, device in devices
        if device.part_of is None
    }


def _by_gpu(
    topology: NodeTopology, mig_strategy: str, policy: str, amd: AmdPlugin
) -> dict[str, list[tuple[Gpu, Device]]]:
    """Return each GPU's devices by resource, before they are shared."""
    by_resource: dict[str, list[tuple[Gpu, Device]]] = {}
    for gpu in countable_gpus(topology.gpus):
        resource = _RESOURCES.get(gpu.vendor)
        if resource is None or not _of_the_host(gpu):
            continue
        if gpu.mig_mode == "enabled" and mig_strategy != "none":
            for name, device in _slices(gpu, policy):
                by_resource.setdefault(resource if mig_strategy == "single" else name, []).append(
                    (gpu, device)
                )
            continue
        listed = by_resource.setdefault(resource, [])
        listed.append((gpu, Device(gpu.uuid or str(len(listed)), _nodes(gpu))))
    of_amd = [gpu for gpu in countable_gpus(topology.gpus) if gpu.vendor == AMD and _of_the_host(gpu)]
    for name, gpu, device in amd_devices(of_amd, amd):
        by_resource.setdefault(name, []).append((gpu, device))
    if GPU in by_resource:
        by_resource[GPU] = _linked(by_resource[GPU], topology)
    return by_resource


def inventory_as_it_is(machine: NodeTopology) -> dict[str, tuple[Device, ...]]:
    """Return what device plugins advertise on a machine as it is, without GPUs managed by a DRA driver.

    A registered driver manages its vendor's GPUs where the kubelet has no device plugin for them.
    """
    plugins = (machine.kubelet.plugin_resources if machine.kubelet else None) or ()
    return {
        resource: devices
        for resource, devices in inventory_of(machine).items()
        if resource in plugins or f"gpu.{resource.partition('/')[0]}" not in machine.claim_drivers
    }


def _accelerators(topology: NodeTopology) -> dict[str, tuple[Device, ...]]:
    """Return the accelerators of the table that are not passed through, by resource."""
    by_resource = grouped(
        (ACCELERATORS[one.vendor], Device(one.pci_address, None))
        for one in topology.accelerators
        if one.vendor in ACCELERATORS and one.driver != "vfio-pci"
    )
    return {resource: tuple(devices) for resource, devices in by_resource.items()}


def whole_gpus(inventory: Inventory) -> Inventory:
    """Return the resources whose devices are whole GPUs, without those of slices or replicas."""
    return {
        resource: devices
        for resource, devices in inventory.items()
        if all(device.part_of is None for device in devices)
    }


def shared_tokens(counts: Mapping[str, int]) -> dict[str, tuple[Device, ...]]:
    """Return the tokens of the shared RDMA device plugin by resource: ids from 0, and near no NUMA node.

    k8s-rdma-shared-dev-plugin, pkg/resources/server.go: it publishes no topology (its issue 117).
    """
    return {
        name: tuple(Device(str(number), None) for number in range(count)) for name, count in counts.items()
    }


def counts_of(inventory: Inventory) -> dict[str, int]:
    """Return the number of devices by resource."""
    return {resource: len(devices) for resource, devices in sorted(inventory.items())}


def _slices(gpu: Gpu, policy: str) -> Iterator[tuple[str, Device]]:
    """Yield each MIG device with its resource under the strategy `mixed`."""
    for number, (profile, instance) in enumerate(mig_devices(gpu)):
        if profile is not None:
            name = instance.uuid or f"{gpu.pci_address}/{number}"
            device = Device(name, _nodes(gpu), part_of=gpu.pci_address, sharing=policy)
            yield mig_resource(profile), device


def _linked(devices: Sequence[tuple[Gpu, Device]], topology: NodeTopology) -> list[tuple[Gpu, Device]]:
    """Return whole GPUs with the scores of their links; a distance that is not known counts as NODE."""

    def links(one: Gpu, device: Device) -> Iterator[tuple[str, int]]:
        for neighbour, peer in devices:
            if peer is not device:
                nvlinks = min(direct_nvlinks(one, neighbour), _MOST_NVLINKS)
                distance = pci_distance(one, neighbour, topology) or "NODE"
                yield peer.id, nvlinks * _NVLINK_SCORE + _PCIE_SCORES[distance]

    if any(device.part_of for _, device in devices):
        return list(devices)
    return [(gpu, device._replace(links=tuple(links(gpu, device)))) for gpu, device in devices]


def _of_the_host(gpu: Gpu) -> bool:
    return listed_by_nvml(gpu) if gpu.vendor == NVIDIA else gpu.driver != "vfio-pci"


def _nodes(gpu: Gpu) -> frozenset[int] | None:
    return None if gpu.numa_node is None else frozenset({gpu.numa_node})


def _advertised(
    resource: str, devices: Sequence[tuple[Gpu, Device]], shared: Shared
) -> tuple[str, tuple[Device, ...]]:
    """Return a resource's name and devices once they are shared.

    The first replicas of all devices come before the second ones.
    """
    if resource not in shared.replicas:
        return resource, tuple(device for _, device in devices)
    replicas = (
        device._replace(
            id=f"{device.id}::{number}",
            part_of=gpu.pci_address,
            one_per_request=shared.one_per_request,
            links=(),
            sharing=shared.policy,
        )
        for number in range(shared.replicas[resource])
        for gpu, device in devices
    )
    return shared.advertised_as(resource), tuple(replicas)
