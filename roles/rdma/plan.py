"""RDMA on one node: the pools of its kind, and the three concerns that are its own."""

from __future__ import annotations

from dataclasses import replace

from numaforge.kubelet.admission.inventory import counts_of, shared_tokens
from numaforge.planning.model import Decision, NodePlan, RdmaPlan, Reasoned
from numaforge.profile import NodeProfile
from numaforge.roles.gpudirect.plan import plan_acs
from numaforge.roles.rdma.host import plan_rdma_host
from numaforge.roles.rdma.libraries import plan_libraries
from numaforge.roles.rdma.manifests import POOLS_LABEL, pools_name
from numaforge.topology.model import NodeTopology


def plan_rdma(topology: NodeTopology, profile: NodeProfile, kind: RdmaPlan) -> Reasoned[RdmaPlan]:
    """Return what the profile asks for of RDMA, as this machine has it; `kind` has what its kind shares.

    Raises PlanError for what this machine cannot be.
    """
    host = plan_rdma_host(topology, profile)
    acs = plan_acs(topology, profile)
    libraries = plan_libraries(topology, profile)
    return Reasoned(
        replace(kind, acs=acs.value, host=host.value, libraries=libraries.value),
        (*host.decisions, *acs.decisions, *libraries.decisions),
        (*host.notices, *acs.notices, *libraries.notices),
    )


def with_pools(plan: NodePlan) -> NodePlan:
    """Return a plan with what its pools bring to the Node where the shared device plugin serves it."""
    if not plan.rdma.pools_deployed:
        return plan
    tokens = counts_of(shared_tokens({pool.resource: pool.tokens for pool in plan.rdma.pools}))
    name = pools_name(plan)
    return replace(
        plan,
        allocatable=plan.allocatable
        and replace(plan.allocatable, devices={**plan.allocatable.devices, **tokens}),
        labels={**plan.labels, POOLS_LABEL: name},
        decisions=(
            *plan.decisions,
            Decision(
                f"labels.{POOLS_LABEL}", name, "the shared RDMA device plugin with these pools runs on it"
            ),
        ),
    )
