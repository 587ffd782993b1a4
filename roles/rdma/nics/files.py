"""Settings of NICs at every boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.file_content import PROGRAMS, PlannedFile, everywhere
from numaforge.lib.shell import library
from numaforge.roles.template import constant, program_values

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


NICS_PATH = "/etc/numaforge/nics"
NICS_SCRIPT_PATH = f"{PROGRAMS}/nics.sh"
NICS_UNIT_PATH = "/etc/systemd/system/numaforge-nics.service"


TEMPLATES = {
    "rdma/nics.j2": constant(),
    "rdma/nics.sh.j2": program_values(lambda: library("roles/rdma/nics/values", "roles/rdma/nics/at_boot")),
    "rdma/nics.service.j2": constant(command=f"/bin/sh {NICS_SCRIPT_PATH} apply {NICS_PATH}"),
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
