"""The system's own daemons on the reserved CPUs: AllowedCPUs of systemd's slices, now and at every boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.node.part import Look, NodeState, Part, lines
from numaforge.roles.cpus.slices.expected import expected
from numaforge.roles.cpus.slices.section import SLICES

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "system"
RECORD = "/etc/numaforge/slices"


def look(goal: Goal) -> Look:
    """Return the question for the slices' CPUs, now and before the first plan."""
    return Look(
        values=tuple(row.path for row in expected(goal.plan)),
        units=tuple(SLICES),
        properties=("AllowedCPUs",),
        call=("look_system", RECORD, *SLICES),
    )


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part for slices whose CPUs change: planned ones, and those that only an earlier plan had."""
    allowed, recorded = _reported(state)
    ineffective = {row.what for row in expected(goal.plan) if row.differences(state.values)}
    planned = {name: format_cpulist(cpus) for name, cpus in goal.plan.system.slices.items()}
    planned_or_recorded = planned | {name: cpus for name, cpus in recorded.items() if name not in planned}
    changes = {
        name: (allowed.get(name, ""), cpus)
        for name, cpus in sorted(planned_or_recorded.items())
        if name not in planned or allowed.get(name, "") != cpus or f"daemons:{name}" in ineffective
    }
    if not changes:
        return None
    record = {name: recorded.get(name, allowed.get(name, "")) for name in planned}
    return part(changes, planned, record)


def part(
    changes: Mapping[str, tuple[str, str]], planned: Mapping[str, str], record: Mapping[str, str]
) -> Part:
    """Return the part that changes slices from old to new cpulists; an empty one is no restriction.

    `record` has the cpulists of the planned slices before the first plan.
    """
    rows = [f"{name};{new};{old};{'yes' if name in planned else ''}" for name, (old, new) in changes.items()]
    return Part(
        NAME,
        moves=tuple(
            f"{name}: {old or 'all CPUs'} -> {new or 'all CPUs'}" for name, (old, new) in changes.items()
        ),
        data={
            "planned": lines(*rows),
            "record": lines(*(f"{name} {cpus}".rstrip() for name, cpus in record.items())),
        },
        settings={"SLICES_RECORD": RECORD},
    )


def _reported(state: NodeState) -> tuple[dict[str, str], dict[str, str]]:
    """Return the CPUs that systemd allows, and the recorded ones, by slice."""
    allowed: dict[str, str] = {}
    recorded: dict[str, str] = {}
    for text in state.said.get(NAME, ()):
        kind, _, rest = text.partition(" ")
        name, _, value = rest.partition(" ")
        match kind:
            case "allowed":
                allowed[name] = _of_systemd(value)
            case "recorded":
                recorded[name] = _of_systemd(value)
    return allowed, recorded


def _of_systemd(text: str) -> str:
    """Return systemd's "0-1 4-5" as a cpulist."""
    return format_cpulist(parse_cpulist(",".join(text.split())))
