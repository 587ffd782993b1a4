"""What the node will offer: its predicted Allocatable, with its devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from numaforge.kubelet.admission.amd_resources import AMD_RESOURCE
from numaforge.kubelet.admission.inventory import counts_of, shared_tokens
from numaforge.kubelet.admission.nvidia_resources import GPU_RESOURCE
from numaforge.reasons import Reasoned
from numaforge.roles.capacity.plan import PredictedAllocatable
from numaforge.roles.role import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numaforge.roles.node import Decisions, NodeProfile
    from numaforge.topology.model import NodeTopology

TURN = Turn.MACHINE
NEEDS: tuple[str, ...] = ("capacity", "devices", "amd_partitions", "device_plugin", "rdma")


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What the node will offer; None where no kubelet is planned, or the memory is not known."""

    allocatable: PredictedAllocatable | None = None


def decide(machine: NodeTopology, profile: NodeProfile, decided: Decisions) -> Reasoned[Decided]:
    """Return the predicted Allocatable with the devices that are advertised."""
    base = decided.predicted
    if base is None:
        return Reasoned(Decided())
    return Reasoned(Decided(allocatable=replace(base, devices=devices_of(base.devices, decided))))


def devices_of(known: Mapping[str, int], decided: Decisions) -> dict[str, int]:
    """Return the devices by resource: those of the plan's device plugins, and those of other plugins."""
    found = dict(known)
    if decided.advertised is not None:
        found = {name: count for name, count in known.items() if not GPU_RESOURCE.fullmatch(name)}
        found |= decided.advertised
    if decided.amd_partitions.gpus:
        found = {name: count for name, count in found.items() if not AMD_RESOURCE.fullmatch(name)}
        counts = counts_of(decided.devices)
        found |= {name: count for name, count in counts.items() if AMD_RESOURCE.fullmatch(name)}
    if decided.rdma.pools_deployed:
        found |= counts_of(shared_tokens({pool.resource: pool.tokens for pool in decided.rdma.pools}))
    return found
