"""The machine as a plan makes it."""

from dataclasses import replace

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import saved_plan
from numaforge.planning.plan import NodePlan
from numaforge.roles.amd_partitions.plan import partitioned
from numaforge.roles.cpus.offline import OfflinePlan, taken_offline
from numaforge.roles.hugepages.plan import with_pools
from numaforge.roles.mig.plan import as_cut
from numaforge.roles.modules.gpu_memory import in_mode


def machine_as_planned(machine: NodeTopology, plan: NodePlan) -> NodeTopology:
    """Return a machine, captured before or after its plan was applied, as it is with that plan."""
    machine = taken_offline(machine, plan.tuning.offline, earlier_offline(machine))
    machine = in_mode(machine, plan.gpu_memory)
    machine = with_pools(machine, plan.hugepages.pages)
    machine = as_cut(machine, plan.mig)
    machine = partitioned(machine, plan.amd_partitions)
    return replace(
        machine,
        swap_bytes=0 if plan.tuning.swap_off else machine.swap_bytes,
        rdma_netns=plan.rdma.host.netns or machine.rdma_netns,
    )


def earlier_offline(machine: NodeTopology) -> OfflinePlan:
    """Return what the plan on a host took offline; nothing where that plan cannot be read."""
    try:
        plan = saved_plan(machine) if machine.offline else None
    except PlanError:
        plan = None  # planning gives a notice
    return plan.tuning.offline if plan else OfflinePlan()
