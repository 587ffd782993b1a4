"""RDMA on one node: the pools for pods, and the settings of the host and of libraries."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from numaforge.lib.reasons import Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.rdma.host import plan_rdma_host
from numaforge.roles.rdma.libraries import plan_libraries
from numaforge.roles.rdma.nics.plan import NicSetting
from numaforge.roles.rdma.planned import LibrariesPlan, RdmaPlan

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.rdma.pools import RdmaPool


def plan_rdma(
    machine: NodeTopology,
    profile: NodeProfile,
    pools: tuple[RdmaPool, ...],
    nics: tuple[NicSetting, ...],
    earlier: NodePlan | None,
) -> Reasoned[RdmaPlan]:
    """Return the pools for pods, and the settings of the host and of libraries."""
    host = plan_rdma_host(machine, profile)
    libraries = plan_libraries(machine, profile, earlier.rdma.libraries if earlier else LibrariesPlan())
    plan = RdmaPlan(
        pools=pools,
        pools_deployed=bool(pools) and profile.rdma.device_plugin.deployed,
        libraries=libraries.value,
        host=replace(host.value, nics=(*host.value.nics, *nics)),
    )
    parts = (host, libraries)
    return Reasoned(
        plan,
        tuple(chain.from_iterable(part.decisions for part in parts)),
        tuple(chain.from_iterable(part.notices for part in parts)),
    )
