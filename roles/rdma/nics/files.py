"""Settings of NICs at every boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.file_content import PROGRAMS, PlannedFile, everywhere
from numaforge.lib.shell import library
from numaforge.roles.template import Both, Template, lines, program_template, unit_template

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


NICS_PATH = "/etc/numaforge/nics"
NICS_SCRIPT_PATH = f"{PROGRAMS}/nics.sh"
NICS_UNIT_PATH = "/etc/systemd/system/numaforge-nics.service"


def _nics(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    return lines(text), [f"{setting.nic} {setting.name} {setting.value}" for setting in plan.rdma.host.nics]


TEMPLATES = {
    "rdma/nics.j2": Template(_nics),
    "rdma/nics.sh.j2": program_template(
        lambda _: library("roles/rdma/nics/values", "roles/rdma/nics/at_boot")
    ),
    "rdma/nics.service.j2": unit_template(lambda _: f"/bin/sh {NICS_SCRIPT_PATH} apply {NICS_PATH}"),
}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files that give NICs their settings at every boot."""
    if not plan.rdma.host.nics:
        return ()
    return (
        PlannedFile(NICS_PATH, "rdma", "rdma/nics.j2"),
        PlannedFile(NICS_SCRIPT_PATH, "rdma", "rdma/nics.sh.j2"),
        PlannedFile(NICS_UNIT_PATH, "rdma", "rdma/nics.service.j2"),
    )


paths = everywhere(NICS_PATH, NICS_SCRIPT_PATH, NICS_UNIT_PATH)
