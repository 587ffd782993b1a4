"""One host's plan: a pure function of the machine, the profile and the kubelet's version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from graphlib import TopologicalSorter
from typing import Any, cast

from numaforge.errors import PlanError
from numaforge.file_content import PLAN_PATH, PlannedFile
from numaforge.memoize import once_per_value
from numaforge.reasons import Decision, Notice, Reasoned
from numaforge.roles import ROLES
from numaforge.roles.node import Decisions, NodePlan, NodeProfile
from numaforge.roles.role import KindPlanModule, PlanModule, Turn
from numaforge.topology.model import MachineShape, NodeTopology
from numaforge.topology.shape import shape_of


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
    """The decisions so far: the fields of all roles, with the reasons."""

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
    """Return a plan with the files that follow from its decisions."""
    written = (file for role in ROLES if role.files for file in role.files.files(plan))
    return replace(plan, files=(PlannedFile(PLAN_PATH, "topology", None, mode="0600"), *written))


def _of_kind(
    ledger: _Ledger, machine: NodeTopology, profile: NodeProfile, asked_version: str | None
) -> _Ledger:
    """Return the ledger with what the machine's kind decides, and what of that is this machine's own."""
    named = {name for role in _of_a_kind() if (hook := _hook(role, "sysctls")) for name in hook(profile)}
    sysctls = {name: value for name, value in machine.sysctls.items() if name in named}
    needed = {name: value for name, value in ledger.values.items() if name in _needed_by_kind()}
    found = _decided(shape_of(machine), sysctls, _without_identity(machine), profile, asked_version, needed)
    values = dict(found.values)
    for role in _of_a_kind():
        if own := _hook(role, "of_machine"):
            mine = role.Decided(**{each.name: values[each.name] for each in fields(role.Decided)})
            values |= _values(own(mine, machine))
    return _Ledger(
        {**ledger.values, **values},
        (*found.decisions, *ledger.decisions),
        (*found.notices, *ledger.notices),
    )


def _without_identity(machine: NodeTopology) -> str | None:
    """Return the earlier plan's text with this machine's own identity masked, at the same length."""
    text = machine.previous_plan
    identities = [
        ("hostname", machine.hostname),
        ("binary", machine.kubelet and machine.kubelet.binary),
        *(("uuid", gpu.uuid) for gpu in machine.gpus),
    ]
    for key, identity in identities:
        if text and identity:
            text = text.replace(f'"{key}": "{identity}"', f'"{key}": "{"x" * len(identity)}"')
    return text


@once_per_value
def _decided(
    machine: MachineShape,
    sysctls: Mapping[str, str],
    previous_plan: str | None,
    profile: NodeProfile,
    asked_version: str | None,
    needed: Mapping[str, Any],
) -> _Ledger:
    ledger = _Ledger(needed)
    decided = Decisions(needed, previous_plan, asked_version, sysctls=sysctls)
    for role in _of_a_kind():
        ledger = ledger.entered(role.decide(machine, profile, decided))
        decided.values = ledger.values
    for role in _of_a_kind():
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


def _of_a_kind() -> tuple[KindPlanModule, ...]:
    return cast("tuple[KindPlanModule, ...]", _in_turn(Turn.KIND))


@cache
def _needed_by_kind() -> frozenset[str]:
    """Return the fields of foreseen roles that roles of the kind need."""
    needs = {name for role in _of_a_kind() for name in role.NEEDS}
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
