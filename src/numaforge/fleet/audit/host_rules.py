"""Every rule about the userland of a host, and the one that compares it with the plan on it."""

from collections.abc import Iterator

from numaforge.findings.engine import Applicability, Seen
from numaforge.findings.rules import machine_rule
from numaforge.findings.userland import containerd, device_plugins, packages, scope, system
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import loads
from numaforge.roles.host.managers import contests


def _plan_on_host(machine: NodeTopology) -> Applicability:
    if machine.previous_plan is None:
        return Applicability(False, "numaforge has not planned this host")
    try:
        loads(machine.previous_plan)
    except PlanError:
        return Applicability(None, "the plan on the host cannot be read")
    return scope.looked_at(machine)


def _contested(machine: NodeTopology) -> Iterator[Seen]:
    plan = loads(machine.previous_plan or "")
    for contest in contests(machine, plan.tuning, plan.interrupts):
        yield Seen(f"{contest.manager} {contest.does}", contest.where)


CONTESTED = machine_rule("NH203", _plan_on_host, _contested)

RULES = (*system.RULES, *packages.RULES, CONTESTED, *containerd.RULES, *device_plugins.RULES)
