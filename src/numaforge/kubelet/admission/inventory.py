"""What the device plugins of a machine's GPUs advertise: whole GPUs, and MIG devices.

NVIDIA/k8s-device-plugin, internal/rm/device_map.go: with migStrategy mixed each kind of MIG device is a
resource of its own, with single they are nvidia.com/gpu, with none GPUs are advertised whole. A GPU with MIG
is never advertised beside its MIG devices. The NUMA node of a MIG device is that of its GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from numaforge.kubelet.admission.device_manager import Device
from numaforge.topology.model import ComputeInstance, Gpu, GpuInstance, NodeTopology

NVIDIA = "10de"
GPU_RESOURCES = {NVIDIA: "nvidia.com/gpu", "1002": "amd.com/gpu", "8086": "gpu.intel.com/xe"}


def inventory_of(topology: NodeTopology, mig_strategy: str = "mixed") -> dict[str, tuple[Device, ...]]:
    """Return a machine's GPUs as their vendor's device plugin advertises them, by UUID or index.

    MIG devices whose profile has no known name are left out.
    """
    found: dict[str, list[Device]] = {}
    for gpu in topology.gpus:
        resource = GPU_RESOURCES.get(gpu.vendor.removeprefix("0x"))
        if resource is None:
            continue
        nodes = None if gpu.numa_node is None else frozenset({gpu.numa_node})
        if gpu.mig_mode != "enabled" or mig_strategy == "none":
            listed = found.setdefault(resource, [])
            listed.append(Device(gpu.uuid or str(len(listed)), nodes))
            continue
        for name, identity in _mig_devices(gpu):
            shown = resource if mig_strategy == "single" else f"nvidia.com/mig-{name.replace('+', '.')}"
            found.setdefault(shown, []).append(Device(identity, nodes, part_of=gpu.pci_address))
    return {resource: tuple(devices) for resource, devices in found.items()}


def whole_gpus(topology: NodeTopology, mig_strategy: str = "mixed") -> dict[str, tuple[Device, ...]]:
    """Return what `inventory_of` does, without the resources that hold slices of GPUs."""
    found = inventory_of(topology, mig_strategy)
    return {
        resource: devices
        for resource, devices in found.items()
        if all(device.part_of is None for device in devices)
    }


def _mig_devices(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """Yield the name of the profile and the id of each MIG device."""
    offers = {offer.id: offer for offer in gpu.mig_profiles}
    for instance in gpu.gpu_instances or ():
        offer = offers.get(instance.profile_id)
        if offer is None or offer.name is None:
            continue
        for one in instance.compute_instances:
            smaller = one.slices is not None and one.slices < offer.slices
            yield f"{one.slices}c.{offer.name}" if smaller else offer.name, _identity(gpu, instance, one)


def _identity(gpu: Gpu, instance: GpuInstance, one: ComputeInstance) -> str:
    return one.uuid or f"{gpu.pci_address}/{instance.start}/{one.id}"
