"""The contract of a role: one concern of a node, and everything about it in one folder.

    section.py    what a profile may say of it: pydantic models, a field of planning/profile.py
    plan.py       how it is decided: its frozen plan, a field of planning/plan.py, and the function that
                  planning/node.py calls; pure
    files.py      what it writes on the host; listed in planning/files.py
    expected.py   what the kernel's files have to say: read by verification, watch, audit and need(); listed
                  in roles/expected.py
    promises.py   what else verification holds the live node to, with probe.sh where it asks for more than
                  files; listed in verification/table.py
    drift.py      what else an audit compares with the plan that is saved on a machine; listed in
                  fleet/audit/drift.py
    part.py       how a node keeps, applies, proves and undoes it, with part.sh; listed in
                  change/parts.py; at_boot.sh is for its unit

A role has those that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numaforge.lib.file_content import FileContent, PlannedFile
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.template import Values


ALWAYS = ("topology",)
"""What a deploy calls before all others."""


class Role(NamedTuple):
    """One concern of a node: `folder` is its path below roles/.

    It is carried out where a deploy calls it by its name `called`, or a role that it `goes_with`.
    """

    called: str
    folder: str
    goes_with: tuple[str, ...] = ()

    def among(self, called: Collection[str]) -> bool:
        """Whether it is carried out where a deploy has called these."""
        return not {self.called, *self.goes_with}.isdisjoint(called)


machine = Role("machine", "machine", ALWAYS)
cpus = Role("cpus", "cpus")
files = Role("files", "files", ALWAYS)
host = Role("host", "host")
kernel_cmdline = Role("tuning", "kernel_cmdline")
modules = Role("modules", "modules")
mig_mode = Role("mig", "mig/mode")
reboot = Role("reboot", "reboot", ALWAYS)
gpudirect = Role("tuning", "gpudirect")
kernel_values = Role("tuning", "kernel_values")
nics = Role("rdma", "rdma/nics")
interrupts = Role("interrupts", "interrupts")
slices = Role("system", "cpus/slices")
hugepages = Role("hugepages", "hugepages", ("kubelet",))
mig = Role("mig", "mig")
amd_partitions = Role("amd_partitions", "amd_partitions")
imex = Role("imex", "imex")
crio = Role("host", "crio")
memlock = Role("rdma", "host/memlock")
rdma = Role("rdma", "rdma")
kubelet = Role("kubelet", "kubelet")
dra = Role("dra", "dra", ("kubelet",))
watch = Role("watch", "watch", ALWAYS)

ROLES = (
    *(machine, cpus, files, host, kernel_cmdline, modules, mig_mode, reboot, gpudirect, kernel_values, nics),
    *(interrupts, slices, hugepages, mig, amd_partitions),
    *(imex, crio, memlock, rdma, kubelet, dra, watch),
)
"""Every role, in the order of a maintenance: undone backwards, started and proved forwards."""


class Writer(NamedTuple):
    """What a role writes: the functions of its files.py.

    `templates` has each template with its values. `files` returns the files that a plan has written, `paths`
    every path that may hold a file of the role: one that no plan wants there is removed. `untemplated` is
    for a file without a template, given the host's main config file of the kubelet as it is now. `others`
    returns files beside the plan's, given a function that returns a file's text.
    """

    role: Role
    templates: Mapping[str, Values]
    files: Callable[[NodePlan], Sequence[PlannedFile]]
    paths: Callable[[NodePlan, NodeTopology], Sequence[str]]
    untemplated: Callable[[NodePlan, PlannedFile, str | None], str] | None = None
    others: (
        Callable[[NodePlan, str | None, Callable[[NodePlan, PlannedFile], str]], list[FileContent]] | None
    ) = None
