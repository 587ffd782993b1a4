"""MIG at boot: the worker that the part mig sends, and its unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.file_content import PLAN_PATH, PROGRAMS, PlannedFile, everywhere
from numaforge.machine.snapshot.nvml_library import library_source
from numaforge.roles.mig.worker import source
from numaforge.roles.template import constant, program_values

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

MIG_UNIT_PATH = "/etc/systemd/system/numaforge-mig.service"
MIG_WORKER_PATH = f"{PROGRAMS}/mig.py"
MIG_LIBRARY_PATH = f"{PROGRAMS}/pynvml.py"


TEMPLATES = {
    "mig/mig.py.j2": program_values(source),
    "mig/pynvml.py.j2": program_values(lambda: library_source(source())),
    "mig/mig.service.j2": constant(command=f"python3 -BEs {MIG_WORKER_PATH} boot {PLAN_PATH}"),
}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files that cut the GPUs after a boot; none where the GPU operator cuts them."""
    if not plan.mig.gpus or plan.mig.managed_by == "gpu-operator":
        return ()
    return (
        PlannedFile(MIG_LIBRARY_PATH, "mig", "mig/pynvml.py.j2"),
        PlannedFile(MIG_WORKER_PATH, "mig", "mig/mig.py.j2"),
        PlannedFile(MIG_UNIT_PATH, "mig", "mig/mig.service.j2"),
    )


paths = everywhere(MIG_LIBRARY_PATH, MIG_WORKER_PATH, MIG_UNIT_PATH)
