"""What the node will offer: its predicted Allocatable, with its devices."""

from collections.abc import Mapping
from dataclasses import replace

from numaforge.kubelet.admission.amd_resources import AMD_RESOURCE
from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.inventory import counts_of, inventory_of, shared_tokens
from numaforge.kubelet.admission.nvidia_resources import GPU_RESOURCE
from numaforge.lib.reasons import Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.capacity import PredictedAllocatable
from numaforge.planning.profile import NodeProfile
from numaforge.roles.amd_partitions.instance import AmdPartitionsPlan
from numaforge.roles.amd_partitions.plan import plugin_wished
from numaforge.roles.device_plugin.plan import shared_by
from numaforge.roles.rdma.planned import RdmaPlan


def plan_devices(machine: NodeTopology, profile: NodeProfile) -> Reasoned[Inventory]:
    """Return the devices of each resource once the machine is as planned."""
    if profile.dra.gpus == "claims":
        return Reasoned({})
    plugins = profile.mig.strategy, shared_by(profile), plugin_wished(profile)
    return Reasoned(inventory_of(machine, *plugins))


def plan_allocatable(
    base: PredictedAllocatable | None,
    devices: Inventory,
    advertised: Mapping[str, int] | None,
    partitions: AmdPartitionsPlan,
    rdma: RdmaPlan,
) -> Reasoned[PredictedAllocatable | None]:
    if base is None:
        return Reasoned(None)
    return Reasoned(replace(base, devices=_devices(base.devices, devices, advertised, partitions, rdma)))


def _devices(
    by_plan: Mapping[str, int],
    devices: Inventory,
    advertised: Mapping[str, int] | None,
    partitions: AmdPartitionsPlan,
    rdma: RdmaPlan,
) -> dict[str, int]:
    """Return the devices by resource: those of the plan's device plugins, and those of other plugins."""
    devices_by_resource = dict(by_plan)
    if advertised is not None:
        devices_by_resource = {
            name: count for name, count in by_plan.items() if not GPU_RESOURCE.fullmatch(name)
        }
        devices_by_resource |= advertised
    if partitions.gpus:
        devices_by_resource = {
            name: count for name, count in devices_by_resource.items() if not AMD_RESOURCE.fullmatch(name)
        }
        counts = counts_of(devices)
        devices_by_resource |= {name: count for name, count in counts.items() if AMD_RESOURCE.fullmatch(name)}
    if rdma.pools_deployed:
        devices_by_resource |= counts_of(shared_tokens({pool.resource: pool.tokens for pool in rdma.pools}))
    return devices_by_resource
