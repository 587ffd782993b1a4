"""RDMA on one node: the pools for pods, and the settings of the host and of libraries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from numaforge.reasons import Reasoned
from numaforge.roles.rdma.host import plan_rdma_host
from numaforge.roles.rdma.libraries import plan_libraries
from numaforge.roles.rdma.planned import RdmaPlan
from numaforge.roles.role import Turn

if TYPE_CHECKING:
    from numaforge.roles.node import Decisions, NodePlan, NodeProfile
    from numaforge.topology.model import NodeTopology


TURN = Turn.MACHINE
NEEDS: tuple[str, ...] = ("rdma_pools", "gpudirect", "nics")


@dataclass(frozen=True, kw_only=True)
class Decided:
    """RDMA in a plan."""

    rdma: RdmaPlan = RdmaPlan()


def decide(machine: NodeTopology, profile: NodeProfile, decided: Decisions) -> Reasoned[Decided]:
    """Return the pools for pods, and the settings of the host and of libraries."""
    pools = decided.rdma_pools
    host = plan_rdma_host(machine, profile)
    libraries = plan_libraries(machine, profile)
    plan = RdmaPlan(
        pools=pools,
        pools_deployed=bool(pools) and profile.rdma.device_plugin.deployed,
        libraries=libraries.value,
        host=replace(host.value, nics=(*host.value.nics, *decided.nic_queues)),
        acs=decided.acs,
    )
    parts = (host, libraries)
    return Reasoned(
        Decided(rdma=plan),
        tuple(chain.from_iterable(part.decisions for part in parts)),
        tuple(chain.from_iterable(part.notices for part in parts)),
    )


def as_planned(machine: NodeTopology, plan: NodePlan) -> NodeTopology:
    """Return the machine with its RDMA devices in the planned mode of network namespaces."""
    return replace(machine, rdma_netns=plan.rdma.host.netns or machine.rdma_netns)
