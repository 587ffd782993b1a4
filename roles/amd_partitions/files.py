"""AMD partitions at a boot: the worker that the part sends, and its unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.file_content import PLAN_PATH, PROGRAMS, PlannedFile, everywhere
from numaforge.roles.amd_partitions.worker import source
from numaforge.roles.template import constant, program_values

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

AMD_UNIT_PATH = "/etc/systemd/system/numaforge-amd-partitions.service"
AMD_WORKER_PATH = f"{PROGRAMS}/amd_partitions.py"


TEMPLATES = {
    "amd_partitions/amd_partitions.py.j2": program_values(source),
    "amd_partitions/amd_partitions.service.j2": constant(
        command=f"python3 -BEs {AMD_WORKER_PATH} boot {PLAN_PATH}"
    ),
}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files that set the modes after a boot; none where AMD's manager does that."""
    if not plan.amd_partitions.gpus or plan.amd_partitions.managed_by != "numaforge":
        return ()
    return (
        PlannedFile(AMD_WORKER_PATH, "amd_partitions", "amd_partitions/amd_partitions.py.j2"),
        PlannedFile(AMD_UNIT_PATH, "amd_partitions", "amd_partitions/amd_partitions.service.j2"),
    )


paths = everywhere(AMD_WORKER_PATH, AMD_UNIT_PATH)
