"""Kernel values at every boot: sysctl.d, tmpfiles.d and a unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import PlannedFile, everywhere
from numaforge.roles.kernel_values.paths import raised_values, sets_files, tuning_values
from numaforge.template import Both, Template, lines, starts, written_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numaforge.planning.plan import NodePlan


SYSCTL_PATH = "/etc/sysctl.d/90-numaforge.conf"
TUNING_TMPFILES_PATH = "/etc/tmpfiles.d/numaforge-tuning.conf"
TUNING_UNIT_PATH = "/etc/systemd/system/numaforge-tuning.service"


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {"kernel_values": tuning_values(plan.tuning), "raised_values": raised_values(plan.tuning)}


def _read_sysctls(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return lines(text), [f"{name} = {value}" for name, value in sorted(plan.tuning.sysctls.items())]


def _by_path(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return written_values(text), tuning_values(plan.tuning)


def _read_unit(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    commands = starts(text)
    raises = dict(line.split()[-2:] for line in commands if line.startswith("ExecStart=-/bin/sh "))
    values, raised = tuning_values(plan.tuning), raised_values(plan.tuning)
    return (len(commands), raises), (len(raised) + bool(values) + plan.tuning.swap_off, raised)


TEMPLATES = {
    "tuning/sysctl.conf.j2": Template(_read_sysctls),
    "tuning/tmpfiles.conf.j2": Template(_by_path, _values),
    "tuning/tuning.service.j2": Template(_read_unit, _values),
}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files that set the values at every boot."""
    tuning = plan.tuning
    by_path = sets_files(tuning)
    planned_files = []
    if tuning.sysctls:
        planned_files.append(PlannedFile(SYSCTL_PATH, "tuning", "tuning/sysctl.conf.j2"))
    if by_path:
        planned_files.append(PlannedFile(TUNING_TMPFILES_PATH, "tuning", "tuning/tmpfiles.conf.j2"))
    if by_path or tuning.raised_sysctls or tuning.swap_off:
        planned_files.append(PlannedFile(TUNING_UNIT_PATH, "tuning", "tuning/tuning.service.j2"))
    return tuple(planned_files)


paths = everywhere(SYSCTL_PATH, TUNING_TMPFILES_PATH, TUNING_UNIT_PATH)
