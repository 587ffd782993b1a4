"""Packages that stay at their version: held where they are not, released where only we held them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numaforge.lib.shell import line
from numaforge.node.part import Look, NodeState, Part, lines

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "packages"
RECORD = "/etc/numaforge/held-packages"
_WAIT_SECONDS = 120  # for a lock that another run of the package manager holds


def look(goal: Goal) -> Look:
    """Return the look for held packages, and for those that we held."""
    manager = goal.plan.host.package_manager or "none"
    return Look(call=("look_packages", RECORD, manager, "all" if goal.plan.host.holds else "ours"))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that holds and releases packages, or None; packages that others held stay held."""
    held_packages, our_holds = {*state.every(NAME, "held")}, {*state.every(NAME, "ours")}
    planned_holds = {*goal.plan.host.holds}
    hold, loose = sorted(planned_holds - held_packages), sorted((our_holds - planned_holds) & held_packages)
    record = sorted((our_holds & planned_holds) | (planned_holds - held_packages))
    if not hold and record == sorted(our_holds):
        return None
    return part(goal.plan.host.package_manager or "none", hold, loose, record)


def part(manager: str, hold: Sequence[str], loose: Sequence[str], record: Sequence[str]) -> Part:
    """Return the part that holds and releases packages; `manager` is "apt", "dnf", "zypper" or "none"."""
    moves = [f"package {name}: held" for name in hold] + [f"package {name}: no longer held" for name in loose]
    return Part(
        NAME,
        moves=tuple(moves),
        data={
            "hold": lines(*map(line, hold)),
            "loose": lines(*map(line, loose)),
            "record": lines(*map(line, record)),
        },
        settings={"PACKAGE_MANAGER": manager, "HELD_RECORD": RECORD},
        apply_seconds=2 * _WAIT_SECONDS,
        undo_seconds=2 * _WAIT_SECONDS,
    )
