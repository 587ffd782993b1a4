"""Interrupts on the reserved CPUs at every boot."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import PROGRAMS, PlannedFile, everywhere
from numaforge.lib.shell import library
from numaforge.roles.interrupts.expected import affinity_lines
from numaforge.roles.template import Lines

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

INTERRUPTS_PATH = "/etc/numaforge/interrupts.conf"
INTERRUPTS_SCRIPT_PATH = f"{PROGRAMS}/interrupts.sh"
INTERRUPTS_UNIT = "numaforge-interrupts.service"
INTERRUPTS_UNIT_PATH = f"/etc/systemd/system/{INTERRUPTS_UNIT}"
INTERRUPTS_RULES_PATH = "/etc/udev/rules.d/90-numaforge-interrupts.rules"
IRQBALANCE_OFF_PATH = "/etc/systemd/system/irqbalance.service.d/90-numaforge.conf"


@cache
def _affinity() -> str:
    return library("roles/interrupts/affinity").rstrip("\n")


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {
        "affinity": Lines(_affinity()),
        "affinity_lines": affinity_lines(plan.interrupts),
        "command": f"/bin/sh {INTERRUPTS_SCRIPT_PATH} {INTERRUPTS_PATH}",
        "unit": INTERRUPTS_UNIT,
    }


_NAMES = ("interrupts.conf", "interrupts.sh", "interrupts.service", "interrupts.rules", "irqbalance.conf")
TEMPLATES = {f"interrupts/{name}.j2": _values for name in _NAMES}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files that set the interrupts at every boot and after a driver reload."""
    wish, planned_files = plan.interrupts, []
    if wish.devices or wish.rps or wish.default_affinity or wish.workqueues:
        planned_files += [
            PlannedFile(INTERRUPTS_PATH, "interrupts", "interrupts/interrupts.conf.j2"),
            PlannedFile(INTERRUPTS_SCRIPT_PATH, "interrupts", "interrupts/interrupts.sh.j2"),
            PlannedFile(INTERRUPTS_UNIT_PATH, "interrupts", "interrupts/interrupts.service.j2"),
            PlannedFile(INTERRUPTS_RULES_PATH, "interrupts", "interrupts/interrupts.rules.j2"),
        ]
    if wish.irqbalance == "off":
        planned_files.append(PlannedFile(IRQBALANCE_OFF_PATH, "interrupts", "interrupts/irqbalance.conf.j2"))
    return tuple(planned_files)


paths = everywhere(
    INTERRUPTS_PATH, INTERRUPTS_SCRIPT_PATH, INTERRUPTS_UNIT_PATH, INTERRUPTS_RULES_PATH, IRQBALANCE_OFF_PATH
)
