"""Kernel values at every boot: sysctl.d, tmpfiles.d and a unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import PlannedFile, everywhere
from numaforge.roles.expectation import Comparison
from numaforge.roles.kernel_values.expected import expected, expected_files

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


SYSCTL_PATH = "/etc/sysctl.d/90-numaforge.conf"
TUNING_TMPFILES_PATH = "/etc/tmpfiles.d/numaforge-tuning.conf"
TUNING_UNIT_PATH = "/etc/systemd/system/numaforge-tuning.service"


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    limits = (row for row in expected(plan) if row.comparison is Comparison.LEAST)
    return {
        "kernel_values": {path: row.value for row in expected_files(plan.tuning) for path in row.paths()},
        "raised_values": {row.path: row.value for row in limits},
    }


TEMPLATES = dict.fromkeys(
    ("tuning/sysctl.conf.j2", "tuning/tmpfiles.conf.j2", "tuning/tuning.service.j2"), _values
)


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files that set the values at every boot."""
    tuning = plan.tuning
    by_path = any(expected_files(tuning))
    planned_files = []
    if tuning.sysctls:
        planned_files.append(PlannedFile(SYSCTL_PATH, "tuning", "tuning/sysctl.conf.j2"))
    if by_path:
        planned_files.append(PlannedFile(TUNING_TMPFILES_PATH, "tuning", "tuning/tmpfiles.conf.j2"))
    if by_path or tuning.raised_sysctls or tuning.swap_off:
        planned_files.append(PlannedFile(TUNING_UNIT_PATH, "tuning", "tuning/tuning.service.j2"))
    return tuple(planned_files)


paths = everywhere(SYSCTL_PATH, TUNING_TMPFILES_PATH, TUNING_UNIT_PATH)
