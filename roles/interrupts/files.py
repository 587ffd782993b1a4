"""Interrupts on the reserved CPUs at every boot, and the slices of the system's own daemons."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from numaforge.cpulist import format_cpulist
from numaforge.planning.files import INTERRUPTS_PATH, INTERRUPTS_SCRIPT_PATH, INTERRUPTS_UNIT
from numaforge.planning.kernel_paths import affinity_lines
from numaforge.planning.model import NodePlan, PlannedFile
from numaforge.render.texts import Both, Template, lines, program, starts
from numaforge.shell import library


@cache
def _affinity() -> str:
    return library("roles/interrupts/affinity").rstrip("\n")


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {"affinity": _affinity(), "affinity_lines": affinity_lines(plan.interrupts)}


def _configuration(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return tuple(lines(text)), affinity_lines(plan.interrupts)


def _script(_plan: NodePlan, _file: PlannedFile, text: str) -> Both:
    return program(text).rpartition("\n\n")[0], _affinity()


def _unit(_plan: NodePlan, _file: PlannedFile, text: str) -> Both:
    return starts(text), [f"ExecStart=/bin/sh {INTERRUPTS_SCRIPT_PATH} {INTERRUPTS_PATH}"]


def _rules(_plan: NodePlan, _file: PlannedFile, text: str) -> Both:
    found = lines(text)
    return [line for line in found if line.endswith(f'restart {INTERRUPTS_UNIT}"')], found


def _irqbalance_off(_: NodePlan, file: PlannedFile, text: str) -> Both:
    return lines(text), ["[Unit]", f"ConditionPathExists=!{file.path}"]


def _slice(plan: NodePlan, file: PlannedFile) -> list[str]:
    """Return a slice's drop-in: systemd adds what several files allow, so what was allowed goes first."""
    name = file.path.split("/")[-2].removesuffix(".d")
    cpus = format_cpulist(plan.system.slices[name])
    return [f"[{name.rpartition('.')[2].capitalize()}]", "AllowedCPUs=", f"AllowedCPUs={cpus}"]


TEMPLATES = {
    "interrupts/interrupts.conf.j2": Template(_configuration, _values),
    "interrupts/interrupts.sh.j2": Template(_script, _values),
    "interrupts/interrupts.service.j2": Template(_unit),
    "interrupts/interrupts.rules.j2": Template(_rules),
    "interrupts/irqbalance.conf.j2": Template(_irqbalance_off),
    "system/slice.conf.j2": Template(
        lambda plan, file, text: (lines(text), _slice(plan, file)),
        lambda plan, file: {"unit": _slice(plan, file)},
    ),
}
