"""The devices that pods may ask for, by resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from numaforge.kubelet.admission import inventory_of
from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.reasons import Reasoned
from numaforge.roles.amd_partitions.plan import plugin_wished
from numaforge.roles.device_plugin.plan import shared_by
from numaforge.roles.role import Turn, Working

if TYPE_CHECKING:
    from numaforge.roles.node import Decisions, NodeProfile
    from numaforge.topology.model import MachineShape


TURN = Turn.KIND
NEEDS: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decided:
    """The devices that pods may ask for, by resource. Not in the document."""

    devices: Annotated[Inventory, Working]


def decide(machine: MachineShape, profile: NodeProfile, decided: Decisions) -> Reasoned[Decided]:
    """Return the devices of each resource once the machine is as planned."""
    if profile.dra.gpus == "claims":
        return Reasoned(Decided(devices={}))
    plugins = profile.mig.strategy, shared_by(profile), plugin_wished(profile)
    return Reasoned(Decided(devices=inventory_of(machine, *plugins)))
