"""The devices that pods may ask for, by resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.lib.reasons import Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.amd_partitions.plan import plugin_wished
from numaforge.roles.device_plugin.plan import shared_by

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


def plan_devices(machine: NodeTopology, profile: NodeProfile) -> Reasoned[Inventory]:
    """Return the devices of each resource once the machine is as planned."""
    if profile.dra.gpus == "claims":
        return Reasoned({})
    plugins = profile.mig.strategy, shared_by(profile), plugin_wished(profile)
    return Reasoned(inventory_of(machine, *plugins))
