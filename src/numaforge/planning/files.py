"""The files that a plan has written, in the order of a maintenance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.roles.amd_partitions import files as amd_partitions
from numaforge.roles.crio import files as crio
from numaforge.roles.host import files as host
from numaforge.roles.hugepages import files as hugepages
from numaforge.roles.interrupts import files as interrupts
from numaforge.roles.kernel_values import files as kernel_values
from numaforge.roles.kubelet import files as kubelet
from numaforge.roles.memlock import files as memlock
from numaforge.roles.mig import files as mig
from numaforge.roles.modules import files as modules
from numaforge.roles.nics import files as nics
from numaforge.roles.rdma import files as rdma
from numaforge.roles.slices import files as slices
from numaforge.roles.watch import files as watch

if TYPE_CHECKING:
    from numaforge.file_content import PlannedFile
    from numaforge.roles.node import NodePlan
    from numaforge.roles.role import FilesModule

WRITERS: tuple[FilesModule, ...] = (
    host,
    modules,
    kernel_values,
    nics,
    interrupts,
    slices,
    hugepages,
    mig,
    amd_partitions,
    crio,
    memlock,
    rdma,
    kubelet,
    watch,
)


def planned_files(plan: NodePlan) -> Iterator[PlannedFile]:
    """Return the files that follow from a plan's decisions."""
    for writer in WRITERS:
        yield from writer.files(plan)
