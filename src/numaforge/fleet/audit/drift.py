"""Rules about the plan saved on a host: whether the host is still as planned."""

from collections.abc import Iterable, Iterator
from operator import attrgetter

from numaforge.findings.drift import DriftRule
from numaforge.findings.engine import Applicability, MachineRule, Scope, Seen, within
from numaforge.findings.rules import machine_rule
from numaforge.fleet.audit import kernel_files
from numaforge.lib.errors import PlanError
from numaforge.lib.unfinished import TRANSACTIONS
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import saved_plan
from numaforge.planning.plan import NodePlan
from numaforge.roles.kubelet import drift as kubelet
from numaforge.roles.machine import drift as machine
from numaforge.roles.mig import drift as mig

_SAVED = "/etc/numaforge/plan.json"


DRIFT = sorted((*machine.DRIFT, *kernel_files.DRIFT, *kubelet.DRIFT, *mig.DRIFT), key=attrgetter("id"))
"""The rules about a saved plan, by id."""


def _with_plan(machine: NodeTopology) -> Applicability:
    there = bool(machine.previous_plan)
    return Applicability(there, "a plan is saved on it" if there else "no plan is saved on it")


@within(_with_plan)
def _planned(machine: NodeTopology) -> Applicability | None:
    try:
        saved_plan(machine)
    except PlanError:
        return Applicability(None, "its plan cannot be read")
    return None


def _plan(machine: NodeTopology) -> NodePlan:
    plan = saved_plan(machine)
    assert plan is not None, "the rule applies to hosts with a plan"  # noqa: S101 (its scope says so)
    return plan


def _unreadable(machine: NodeTopology) -> Iterator[Seen]:
    try:
        saved_plan(machine)
    except PlanError as error:
        yield Seen(error.message, error.where)


def _scope(rule: DriftRule) -> Scope:
    concern = rule.concern
    if concern is None:
        return _planned

    @within(_planned)
    def with_such_a_plan(machine: NodeTopology) -> Applicability | None:
        return None if concern.of(_plan(machine)) else Applicability(False, concern.otherwise)

    return with_such_a_plan


def _of_machine(rule: DriftRule) -> MachineRule:

    def look(machine: NodeTopology) -> Iterable[Seen]:
        return rule.look(machine, _plan(machine))

    machines = rule.concern.plans if rule.concern else "with a plan of numaforge's that can be read"
    return MachineRule(rule.id, rule.severity, rule.title, machines, _scope(rule), _SAVED, rule.remedy, look)


def _changed(machine: NodeTopology) -> Applicability:
    there = bool(machine.previous_plan or machine.unfinished)
    return Applicability(
        there, "it has a plan or a change" if there else "it has neither a plan nor a change"
    )


def _unfinished(machine: NodeTopology) -> Iterator[Seen]:
    if machine.unfinished is not None:
        yield Seen(str(machine.unfinished), TRANSACTIONS)


RULES = (
    machine_rule("NP101", _with_plan, _unreadable),
    *map(_of_machine, DRIFT),
    machine_rule("NP112", _changed, _unfinished),
)
