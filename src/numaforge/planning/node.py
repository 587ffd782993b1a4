"""One host's plan: a pure function of what is there, what is wanted, and the kubelet's version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from graphlib import TopologicalSorter
from typing import Any

from numaforge.errors import PlanError
from numaforge.file_content import PLAN_PATH, PlannedFile
from numaforge.kinds import kind_of, once_per_kind
from numaforge.reasons import Decision, Notice, Reasoned
from numaforge.roles import ROLES
from numaforge.roles.node import Decisions, NodePlan, NodeProfile
from numaforge.roles.role import PlanModule, Turn
from numaforge.topology.model import NodeTopology


def plan_node(topology: NodeTopology, profile: NodeProfile, kubelet_version: str | None = None) -> NodePlan:
    """Decide everything for one host, role by role.

    `kubelet_version` plans for another version than the host's. Raises PlanError, with the host's name, for a
    profile that this machine or this kubelet cannot meet.
    """
    try:
        return _planned(topology, profile, kubelet_version)
    except PlanError as error:
        raise error.at(topology.hostname or "localhost") from error.__cause__


@dataclass(frozen=True)
class _Ledger:
    """What has been decided: the fields of all roles, with the reasons."""

    values: Mapping[str, Any] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    notices: tuple[Notice, ...] = ()

    def entered(self, found: Reasoned[Any]) -> _Ledger:
        return replace(
            self,
            values={**self.values, **_values(found.value)},
            decisions=(*self.decisions, *found.decisions),
            notices=(*self.notices, *found.notices),
        )


def _planned(machine: NodeTopology, profile: NodeProfile, asked_version: str | None) -> NodePlan:
    ledger = _Ledger()
    for role in _in_turn(Turn.FORESEEN):
        found = role.decide(machine, profile, Decisions(ledger.values, machine.previous_plan, asked_version))
        ledger = ledger.entered(found)
        machine = _hook(role, "foresee")(machine, found.value)
    ledger = _of_kind(ledger, machine, profile, asked_version)
    decided = Decisions(ledger.values, machine.previous_plan, asked_version, profile.name)
    for role in _in_turn(Turn.MACHINE):
        ledger = ledger.entered(role.decide(machine, profile, decided))
        decided.values = ledger.values
    plan = NodePlan(
        hostname=machine.hostname or "localhost",
        profile=profile.name,
        files=(),
        decisions=ledger.decisions,
        notices=ledger.notices,
        **{name: value for name, value in ledger.values.items() if name in _FIELDS},
    )
    return with_files(plan)


def with_files(plan: NodePlan) -> NodePlan:
    """Return a plan with the files that its decisions have written."""
    written = (file for role in ROLES if role.files for file in role.files.files(plan))
    return replace(plan, files=(PlannedFile(PLAN_PATH, "topology", None), *written))


def _of_kind(
    ledger: _Ledger, machine: NodeTopology, profile: NodeProfile, asked_version: str | None
) -> _Ledger:
    """Return the ledger with what the machine's kind decides, and what of that is this machine's own."""
    names = (
        name for role in _in_turn(Turn.KIND) if (hook := _hook(role, "sysctls")) for name in hook(profile)
    )
    needed = {name: value for name, value in ledger.values.items() if name in _needed_by_kind()}
    found = _decided(kind_of(machine, tuple(names)), profile, asked_version, needed)
    values = dict(found.values)
    for role in _in_turn(Turn.KIND):
        if own := _hook(role, "of_machine"):
            mine = role.Decided(**{each.name: values[each.name] for each in fields(role.Decided)})
            values |= _values(own(mine, machine))
    return _Ledger(
        {**ledger.values, **values},
        (*found.decisions, *ledger.decisions),
        (*found.notices, *ledger.notices),
    )


@once_per_kind
def _decided(
    machine: NodeTopology, profile: NodeProfile, asked_version: str | None, needed: Mapping[str, Any]
) -> _Ledger:
    ledger = _Ledger(needed)
    decided = Decisions(needed, machine.previous_plan, asked_version)
    for role in _in_turn(Turn.KIND):
        ledger = ledger.entered(role.decide(machine, profile, decided))
        decided.values = ledger.values
    for role in _in_turn(Turn.KIND):
        if review := _hook(role, "review"):
            said = {notice.id for notice in ledger.notices}
            ledger = replace(ledger, notices=(*ledger.notices, *review(machine, profile, decided, said)))
    return ledger


@cache
def _in_turn(stage: Turn) -> tuple[PlanModule, ...]:
    """Return the roles that are decided then, each after those that it needs."""
    plans = {role.name: role.plan for role in ROLES if role.plan and role.plan.TURN is stage}
    order = TopologicalSorter(
        {name: [need for need in plan.NEEDS if need in plans] for name, plan in plans.items()}
    )
    return tuple(plans[name] for name in order.static_order())


@cache
def _needed_by_kind() -> frozenset[str]:
    """Return the fields of foreseen roles that roles of the kind need."""
    needs = {name for role in _in_turn(Turn.KIND) for name in role.NEEDS}
    return frozenset(
        each.name
        for role in ROLES
        if role.plan and role.plan.TURN is Turn.FORESEEN and role.name in needs
        for each in fields(role.plan.Decided)
    )


def _hook(role: PlanModule, name: str) -> Any:
    return getattr(role, name, None)  # few roles have it


def _values(decided: Any) -> dict[str, Any]:
    return {each.name: getattr(decided, each.name) for each in fields(decided)}


_FIELDS = {each.name for each in fields(NodePlan)}
