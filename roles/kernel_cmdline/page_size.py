"""The kernel's page size: only checked against the profile, since changing it takes another kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import parse_bytes
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.page_size import hugepage_sizes, page_size

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile

_FIELD = "kernel.page_size"
_DEFAULT_SIZE = "default_hugepagesz="
_PACKAGES = {
    "ubuntu": "linux-nvidia-64k on NVIDIA's systems, else linux-generic-64k",
    "rhel": "kernel-64k",
    "sles": "kernel-64kb",
}


def judge_page_size(topology: NodeTopology, profile: NodeProfile) -> Reasoned[str | None]:
    """Return the kernel's page size where the profile asks for one; None also where it is not known.

    Raises PlanError, naming the package of a kernel with that size, where the running kernel's differs.
    """
    wish = profile.kernel.page_size
    if wish is None:
        return Reasoned(None)
    kernel_size = page_size(topology)
    if kernel_size is None:
        text = f"the kernel's page size is unknown, so {wish} is not checked"
        return Reasoned(None, notices=(Notice("page-size-unknown", text),))
    if kernel_size != wish:
        raise PlanError(
            f"the kernel {topology.kernel or ''} has pages of {kernel_size}, not {wish}",
            where=_FIELD,
            remedy=_remedy(topology, wish),
        )
    return Reasoned(
        kernel_size, (Decision(_FIELD, kernel_size, f"{profile.choice(_FIELD)}, as the kernel has it"),)
    )


def refuse_other_pages(topology: NodeTopology, cmdline: Sequence[str]) -> None:
    """Raise PlanError for a default size of huge pages without a pool: the kernel would ignore it."""
    sizes = hugepage_sizes(topology)
    for parameter in cmdline:
        size = parameter.removeprefix(_DEFAULT_SIZE)
        if size == parameter or not sizes or parse_bytes(f"{size}i") in map(parse_bytes, sizes):
            continue
        kernel_size = page_size(topology)
        pages = f", with pages of {kernel_size}," if kernel_size else ""
        raise PlanError(
            f"has {parameter}, and this kernel{pages} has huge pages of {', '.join(sizes)}",
            where="kernel.cmdline",
            remedy="choose one of these sizes, or boot a kernel with another page size (kernel.page_size)",
        )


def _remedy(topology: NodeTopology, wish: str) -> str:
    if topology.architecture != "aarch64":
        return f"leave {_FIELD} out: only Arm has kernels with other pages than 4Ki"
    release = topology.os_release
    like = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
    package = next((_PACKAGES[name] for name in like if name in _PACKAGES), None)
    if wish != "64Ki" or package is None:
        return f"install and boot a kernel with pages of {wish}, or leave {_FIELD} out"
    return f"install the package {package} and boot it, or leave {_FIELD} out"
