"""The files that a plan has written, in the order of a maintenance."""

from collections.abc import Iterator

from numaforge.lib.file_content import PlannedFile
from numaforge.planning.plan import NodePlan
from numaforge.roles import role
from numaforge.roles.amd_partitions import files as amd_partitions
from numaforge.roles.cpus.slices import files as slices
from numaforge.roles.crio import files as crio
from numaforge.roles.host import files as host
from numaforge.roles.host.memlock import files as memlock
from numaforge.roles.hugepages import files as hugepages
from numaforge.roles.interrupts import files as interrupts
from numaforge.roles.kernel_values import files as kernel_values
from numaforge.roles.kubelet import files as kubelet
from numaforge.roles.mig import files as mig
from numaforge.roles.modules import files as modules
from numaforge.roles.rdma import files as rdma
from numaforge.roles.rdma.nics import files as nics
from numaforge.roles.role import Role, Writer
from numaforge.roles.watch import files as watch

WRITERS = (
    Writer(role.host, host.TEMPLATES, host.files, host.paths),
    Writer(role.modules, modules.TEMPLATES, modules.files, modules.paths),
    Writer(role.kernel_values, kernel_values.TEMPLATES, kernel_values.files, kernel_values.paths),
    Writer(role.nics, nics.TEMPLATES, nics.files, nics.paths),
    Writer(role.interrupts, interrupts.TEMPLATES, interrupts.files, interrupts.paths),
    Writer(role.slices, slices.TEMPLATES, slices.files, slices.paths),
    Writer(role.hugepages, hugepages.TEMPLATES, hugepages.files, hugepages.paths),
    Writer(role.mig, mig.TEMPLATES, mig.files, mig.paths),
    Writer(role.amd_partitions, amd_partitions.TEMPLATES, amd_partitions.files, amd_partitions.paths),
    Writer(role.crio, crio.TEMPLATES, crio.files, crio.paths),
    Writer(role.memlock, memlock.TEMPLATES, memlock.files, memlock.paths),
    Writer(role.rdma, rdma.TEMPLATES, rdma.files, rdma.paths, others=rdma.others),
    Writer(
        role.kubelet,
        kubelet.TEMPLATES,
        kubelet.files,
        kubelet.paths,
        untemplated=kubelet.text,
        others=kubelet.others,
    ),
    Writer(role.watch, watch.TEMPLATES, watch.files, watch.paths, others=watch.others),
)


def planned_files(plan: NodePlan) -> Iterator[PlannedFile]:
    """Return the files that follow from a plan's decisions."""
    for writer in WRITERS:
        yield from writer.files(plan)


def writer_of(role: Role) -> Writer | None:
    return next((writer for writer in WRITERS if writer.role is role), None)
