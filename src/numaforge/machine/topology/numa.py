"""NUMA nodes with their memory, distances and hugepage pools, and the size of the kernel's pages."""

import re
from collections.abc import Mapping

from numaforge.lib.given import digits
from numaforge.lib.quantity import format_bytes, parse_bytes
from numaforge.machine.snapshot.catalogue import NUMA
from numaforge.machine.topology.cpus import cpu_set, first_set
from numaforge.machine.topology.model import CpuSet, HugepagePool, NodeTopology, NumaNode

_NODE_FILE = re.compile(r"/sys/devices/system/node/node([0-9]{1,9})/(.+)")
_POOL_FILE = re.compile(r"(?:/sys/kernel/mm/)?hugepages/hugepages-([0-9]{1,15})kB/(\w+)")


def read_numa_nodes(files: Mapping[str, str], online: CpuSet) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes in sysfs; none where the kernel was built without NUMA."""
    by_node: dict[int, dict[str, str]] = {}
    for path, text in files.items():
        if match := _NODE_FILE.fullmatch(path):
            by_node.setdefault(int(match[1]), {})[match[2]] = text
    listed = [cpu_set(files, f"{NUMA}/{name}") for name in ("online", "possible")]
    initiators = cpu_set(files, f"{NUMA}/has_generic_initiator")
    return tuple(
        NumaNode(
            id=node,
            cpus=(first_set(files_of, ("cpumap", "cpulist"), "") or frozenset()) & online,
            memory_bytes=meminfo_bytes(files_of.get("meminfo", ""), "MemTotal"),
            distances=_distances(files_of.get("distance", ""), frozenset(by_node), listed),
            hugepages=read_pools(files_of),
            generic_initiator=None if initiators is None else node in initiators,
        )
        for node, files_of in sorted(by_node.items())
    )


def _distances(text: str, shown: CpuSet, listed: list[CpuSet | None]) -> dict[int, int]:
    """Return the distance to each NUMA node in sysfs.

    A row has one number per online node in the order of their ids; some kernels include offline nodes.
    """
    row = [number for word in text.split() if (number := digits(word)) is not None]
    nodes = next((ids for ids in (shown, *listed) if ids is not None and len(ids) == len(row)), frozenset())
    return {node: distance for node, distance in zip(sorted(nodes), row, strict=False) if node in shown}


def read_pools(files: Mapping[str, str]) -> dict[str, HugepagePool]:
    """Return hugepage pools by Kubernetes' size suffix, smallest pages first."""
    sizes: dict[int, dict[str, int]] = {}
    for path, text in files.items():
        if (match := _POOL_FILE.fullmatch(path)) and (count := digits(text)) is not None:
            sizes.setdefault(int(match[1]) * 1024, {})[match[2]] = count
    return {
        format_bytes(size): HugepagePool(total=counts["nr_hugepages"], free=counts.get("free_hugepages", 0))
        for size, counts in sorted(sizes.items())
        if "nr_hugepages" in counts
    }


def meminfo_bytes(text: str, key: str) -> int | None:
    """Return the bytes of one line of a meminfo file, of /proc or of a NUMA node."""
    match = re.search(rf"^(?:Node [0-9]+ )?{key}:\s*([0-9]{{1,17}}) kB$", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


# A size of huge pages that only kernels of this page size have: Documentation/arch/arm64/hugetlbpage.rst.
_TOLD_BY = {"512Mi": "64Ki", "64Ki": "4Ki", "1Gi": "4Ki", "32Mi": "16Ki"}


def page_size(machine: NodeTopology) -> str | None:
    """Return the size of the kernel's pages, "4Ki", derived from its huge pages; None where unknown."""
    if machine.architecture == "x86_64":
        return "4Ki"
    sizes = hugepage_sizes(machine) if machine.architecture == "aarch64" else ()
    return next((size for huge, size in _TOLD_BY.items() if huge in sizes), None)


def hugepage_sizes(machine: NodeTopology) -> tuple[str, ...]:
    """Return the sizes of the kernel's hugepage pools, smallest first; none where they were not captured."""
    sizes = {*machine.hugepages}.union(*(node.hugepages for node in machine.numa_nodes))
    return tuple(sorted(sizes, key=parse_bytes))
