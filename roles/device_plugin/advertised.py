"""Which GPUs the device plugin advertises with a configuration, and on which machines it exits instead.

Sources: k8s-device-plugin, internal/rm/device_map.go and rm.go; nvlib/device of go-nvlib, with which the
plugin visits devices. The error is the whole line that the plugin logs, from `error starting plugins` on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.kubelet.admission.nvidia_resources import GPU_RESOURCE
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.vendors import NOT_LISTED
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus
from numaforge.roles.mig.models import known_model

if TYPE_CHECKING:
    from numaforge.roles.device_plugin.config import DevicePluginConfig

_STARTING = "error starting plugins: "
_DEFAULTS = f"{_STARTING}unable to add default resources to config: "
_DEVICE_MAP = (
    f"{_STARTING}error getting plugins: unable to create plugins: failed to construct resource managers: "
    "error building device map: error building device map from config.resources: "
)
_GPUS = f"{_DEVICE_MAP}error building GPU device map: "
_MIG = f"{_DEVICE_MAP}invalid MIG configuration: "
_EACH_MIG_DEVICE = (
    "error visiting devices: error visiting device: error visiting device: error visiting MIG device: "
    "error visiting MIG device: "
)


def advertised(config: DevicePluginConfig, machine: NodeTopology) -> dict[str, int]:
    """Return the number of known devices by advertised resource name, counting replicas of shared devices."""
    shared, strategy = config.sharing.taken, config.flags.mig_strategy
    by_resource = {} if refused(machine, strategy) else inventory_of(machine, strategy)
    return {
        shared.advertised_as(name): len(devices) * shared.replicas.get(name, 1)
        for name, devices in sorted(by_resource.items())
        if GPU_RESOURCE.fullmatch(name)
    }


def refused(machine: NodeTopology, strategy: str) -> str | None:
    """Return the line with which the plugin rejects a geometry; None where it starts, as far as is known."""
    gpus = nvml_gpus(machine)
    cut = {index: gpu for index, gpu in gpus.items() if gpu.mig_mode == "enabled"}
    names = {index: mig_device_names(gpu) for index, gpu in cut.items()}
    if strategy == "mixed":
        # a compute instance that is smaller than its GPU instance: 1c.3g.40gb
        parts = sorted(name for devices in names.values() for name in devices or () if "c." in name)
        unknown = f"MIG profile '{parts[0]}' does not match any resource patterns" if parts else None
        return unknown and f"{_DEVICE_MAP}error building MIG device map: {_EACH_MIG_DEVICE}{unknown}"
    if strategy != "single":
        return None
    if empty := [index for index, devices in names.items() if devices == ()]:
        return (
            f"{_MIG}at least one device with migEnabled=true was not configured correctly: "
            f"error visiting device: device {empty[0]} has no MIG devices configured"
        )
    if not _is_one_kind(cut.values()):
        return f"{_MIG}{_EACH_MIG_DEVICE}more than one MIG device type present on node"
    if any(names.values()) and len(cut) < len(gpus):
        return f"{_DEVICE_MAP}all devices on the node must be configured with the same migEnabled value"
    return None


def lost(machine: NodeTopology, strategy: str) -> tuple[int, str] | None:
    """Return the index of the first lost GPU, and the line with which the plugin exits; None without one.

    The plugin asks NVML for each GPU's handle and name, whatever the strategy; NVML lists a lost GPU but has
    no handle for it (nvml.h). The plugin may start with a GPU that reports its name. Where the driver itself
    fails, no GPU counts as lost.
    """
    if machine.nvidia is not None and machine.nvidia.error is not None:
        return None
    for index, gpu in nvml_gpus(machine).items():
        if gpu.unanswered in (None, NOT_LISTED) or gpu.name is not None:
            continue
        begins = f"{_DEFAULTS}error visiting devices: " if strategy == "mixed" else _GPUS
        return index, f"{begins}error getting device handle for index '{index}': {gpu.unanswered}"
    return None


def as_listed(machine: NodeTopology) -> NodeTopology:
    """Return a machine without the GPUs that a working driver does not list, such as one off the bus."""
    if machine.nvidia is not None and machine.nvidia.error is not None:
        return machine
    return replace(machine, gpus=tuple(gpu for gpu in machine.gpus if gpu.unanswered != NOT_LISTED))


def _is_one_kind(gpus: Iterable[Gpu]) -> bool:
    """Whether the plugin sees all MIG devices as one kind, as far as is known.

    The plugin compares NVML's attributes, not names: a 1g.10gb of an A100 has fewer multiprocessors than one
    of an H100. On GPUs of one model they match where NVML reports the same memory size.
    """
    kinds, sizes = set(), set()
    for gpu in gpus:
        memory = {offer.name: offer.memory_bytes for offer in gpu.mig_profiles}
        for name in mig_device_names(gpu) or ():
            model = known_model(gpu)
            kinds.add((model.key if model else gpu.device, name))
            sizes.add(memory.get(name.rpartition("c.")[2]))
    return len(kinds) <= 1 and len(sizes - {None}) <= 1
