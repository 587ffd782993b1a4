"""The machine is the one that was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist
from numaforge.roles.promise import HOSTNAME, Promise, Table, value_is, values_of

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

ONLINE = "/sys/devices/system/cpu/online"


def machine(plan: NodePlan) -> Table:
    """What the plan was made for: the host's name, its online CPUs, the CPUs of each NUMA node."""
    return {
        "hostname": (HOSTNAME, plan.hostname),
        "online-cpus": (ONLINE, format_cpulist(plan.cpus.online)),
        **{
            f"numa-node-{node.id}": (
                f"/sys/devices/system/node/node{node.id}/cpulist",
                format_cpulist(node.cpus),
            )
            for node in plan.memory.numa_nodes
        },
    }


PROMISES = (Promise("the_machine_is_the_one_of_the_plan", machine, value_is, values=values_of(machine)),)
