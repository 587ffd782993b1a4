"""The size of the kernel's pages, and the sizes of its huge pages, which follow from it."""

from numaforge.lib.quantity import parse_bytes
from numaforge.machine.topology.model import NodeTopology

# A size of huge pages that only kernels of this page size have: Documentation/arch/arm64/hugetlbpage.rst.
_TOLD_BY = {"512Mi": "64Ki", "64Ki": "4Ki", "1Gi": "4Ki", "32Mi": "16Ki"}


def page_size(machine: NodeTopology) -> str | None:
    """Return the size of the kernel's pages, "4Ki", derived from its huge pages; None where unknown."""
    if machine.architecture == "x86_64":
        return "4Ki"
    if machine.architecture != "aarch64":
        return None
    sizes = hugepage_sizes(machine)
    return next((size for huge, size in _TOLD_BY.items() if huge in sizes), None)


def hugepage_sizes(machine: NodeTopology) -> tuple[str, ...]:
    """Return the sizes of the kernel's hugepage pools, smallest first; none where they were not captured."""
    sizes = {*machine.hugepages}.union(*(node.hugepages for node in machine.numa_nodes))
    return tuple(sorted(sizes, key=parse_bytes))
