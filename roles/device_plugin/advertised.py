"""Which GPUs the device plugin advertises with a configuration, and on which machines it ends instead.

Source: k8s-device-plugin, internal/rm/device_map.go and rm.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.kubelet.admission.gpu_resources import GPU_RESOURCE
from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus

if TYPE_CHECKING:
    from numaforge.kubelet.admission.device_manager import Inventory
    from numaforge.roles.device_plugin.config import DevicePluginConfig
    from numaforge.topology.model import NodeTopology


def advertised(config: DevicePluginConfig, machine: NodeTopology) -> Inventory:
    """Return the known devices of each resource; none where the plugin refuses the machine."""
    strategy = config.flags.mig_strategy
    if refused(machine, strategy):
        return {}
    found = inventory_of(machine, strategy, config.sharing.taken)
    return {name: devices for name, devices in found.items() if GPU_RESOURCE.fullmatch(name)}


def refused(machine: NodeTopology, strategy: str) -> str | None:
    """Return with which words the plugin ends on a machine; None where it starts, as far as is known."""
    gpus = nvml_gpus(machine)
    cut = {index: mig_device_names(gpu) for index, gpu in gpus.items() if gpu.mig_mode == "enabled"}
    kinds = {name for names in cut.values() for name in names or ()}
    if strategy == "mixed" and (parts := sorted(name for name in kinds if _is_part(name))):
        return f"MIG profile '{parts[0]}' does not match any resource patterns"
    if strategy != "single":
        return None
    if empty := [index for index, names in cut.items() if names == ()]:
        return (
            "invalid MIG configuration: at least one device with migEnabled=true was not configured "
            f"correctly: device {empty[0]} has no MIG devices configured"
        )
    if len(kinds) > 1:
        return "invalid MIG configuration: more than one MIG device type present on node"
    if kinds and len(cut) < len(gpus):
        return "all devices on the node must be configured with the same migEnabled value"
    return None


def _is_part(profile: str) -> bool:
    """Say whether a MIG device is a compute instance that is smaller than its GPU instance: 1c.3g.40gb."""
    return "c." in profile
