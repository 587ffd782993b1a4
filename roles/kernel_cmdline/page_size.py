"""The kernel's page size: compared with what is asked for, for only another kernel has another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.errors import PlanError
from numaforge.reasons import Decision, Notice, Reasoned

if TYPE_CHECKING:
    from numaforge.roles.node import NodeProfile
    from numaforge.topology.model import NodeTopology

_FIELD = "kernel.page_size"
# A size of huge pages that only kernels of this page size have: Documentation/arch/arm64/hugetlbpage.rst.
_TOLD_BY = {"512Mi": "64Ki", "64Ki": "4Ki", "1Gi": "4Ki", "32Mi": "16Ki"}
_PACKAGES = {
    "ubuntu": "linux-nvidia-64k on NVIDIA's systems, else linux-generic-64k",
    "rhel": "kernel-64k",
    "sles": "kernel-64kb",
}


def page_size(topology: NodeTopology) -> str | None:
    """Return the size of the kernel's pages, "4Ki", as its huge pages tell it; None where they do not."""
    if topology.architecture == "x86_64":
        return "4Ki"
    if topology.architecture != "aarch64":
        return None
    sizes = {*topology.hugepages}.union(*(node.hugepages for node in topology.numa_nodes))
    return next((size for huge, size in _TOLD_BY.items() if huge in sizes), None)


def judge_page_size(topology: NodeTopology, profile: NodeProfile) -> Reasoned[str | None]:
    """Return the kernel's page size, where the profile asks for one.

    Raises PlanError, with the package of the kernel that has it, where the running one has another.
    """
    wish = profile.kernel.page_size
    if wish is None:
        return Reasoned(None)
    found = page_size(topology)
    if found is None:
        text = f"the kernel's huge pages do not tell its page size, so that it has {wish} is not checked"
        return Reasoned(None, notices=(Notice("page-size-unknown", text),))
    if found != wish:
        raise PlanError(
            f"the kernel {topology.kernel or ''} has pages of {found}, not {wish}",
            where=_FIELD,
            remedy=_remedy(topology, wish),
        )
    return Reasoned(found, (Decision(_FIELD, found, f"{profile.choice(_FIELD)}, as the kernel has it"),))


def _remedy(topology: NodeTopology, wish: str) -> str:
    if topology.architecture != "aarch64":
        return f"leave {_FIELD} out: only Arm has kernels with other pages than 4Ki"
    release = topology.os_release
    like = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
    package = next((_PACKAGES[name] for name in like if name in _PACKAGES), None)
    if wish != "64Ki" or package is None:
        return f"install and boot a kernel with pages of {wish}, or leave {_FIELD} out"
    return f"install the package {package} and boot it, or leave {_FIELD} out"
