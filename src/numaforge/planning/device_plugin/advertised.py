"""Which resources the device plugin makes of the GPUs that it finds.

Source: k8s-device-plugin, internal/rm/device_map.go and rm.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from numaforge.errors import PlanError
from numaforge.planning.device_plugin.config import DevicePluginConfig
from numaforge.planning.device_plugin.names import GPU, SHARED, mig_resource
from numaforge.planning.mig.devices import FoundGpu


def advertised(gpus: Sequence[FoundGpu], strategy: str) -> dict[str, int]:
    """Return how many devices of which resource the plugin advertises, nothing shared.

    `strategy` is its migStrategy. Raises PlanError, in the plugin's words, where it would refuse the machine.
    """
    if refusal := refused(gpus, strategy):
        raise PlanError(refusal, where=f"migStrategy {strategy}")
    counts: Counter[str] = Counter()
    for gpu in gpus:
        if gpu.mig_devices is None or strategy == "none":
            counts[GPU] += 1
        else:
            counts.update(GPU if strategy == "single" else mig_resource(name) for name in gpu.mig_devices)
    return dict(sorted(counts.items()))


def shared(counts: Mapping[str, int], replicas: Mapping[str, int], suffix: str = "") -> dict[str, int]:
    """Return counts of resources once some are shared: so many replicas of each device.

    What is shared is advertised under its name with `suffix`, which is ".shared" for renameByDefault.
    """
    return {
        name + (suffix if name in replicas else ""): count * replicas.get(name, 1)
        for name, count in counts.items()
    }


def of_config(config: DevicePluginConfig, gpus: Sequence[FoundGpu]) -> dict[str, int]:
    """Return how many devices of which resource the plugin advertises with a configuration.

    Nothing where it would refuse the machine.
    """
    if refused(gpus, config.flags.mig_strategy):
        return {}
    sharing = config.sharing.active
    replicas = {one.name: one.replicas for one in sharing.resources} if sharing else {}
    suffix = SHARED if sharing and sharing.rename_by_default else ""
    return shared(advertised(gpus, config.flags.mig_strategy), replicas, suffix)


def refused(gpus: Sequence[FoundGpu], strategy: str) -> str | None:
    """Return with which words the plugin ends on such a machine; None where it starts."""
    with_mig = [gpu for gpu in gpus if gpu.mig_devices is not None]
    kinds = {name for gpu in with_mig for name in gpu.mig_devices or ()}
    if strategy == "mixed" and (parts := sorted(name for name in kinds if _is_part(name))):
        return f"MIG profile '{parts[0]}' does not match any resource patterns"
    if strategy != "single":
        return None
    if empty := [gpu.index for gpu in with_mig if not gpu.mig_devices]:
        return (
            "invalid MIG configuration: at least one device with migEnabled=true was not configured "
            f"correctly: device {empty[0]} has no MIG devices configured"
        )
    if len(kinds) > 1:
        return "invalid MIG configuration: more than one MIG device type present on node"
    if kinds and len(with_mig) < len(gpus):
        return "all devices on the node must be configured with the same migEnabled value"
    return None


def _is_part(profile: str) -> bool:
    """Say whether a MIG device is a compute instance that is smaller than its GPU instance: 1c.3g.40gb."""
    return "c." in profile
