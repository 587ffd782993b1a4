"""How many huge pages of which size every NUMA node gets."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from numaforge.cpulist import format_cpulist
from numaforge.errors import PlanError
from numaforge.planning.model import Decision, NodePlan, Reasoned
from numaforge.profile import Hugepages, NodeProfile
from numaforge.quantity import format_bytes, parse_bytes
from numaforge.topology.model import NodeTopology, NumaNode

SUBJECT = "hugepages"
VMEMMAP = "vm.hugetlb_optimize_vmemmap"

PagesBySize = Mapping[str, int]


def plan_hugepages(
    topology: NodeTopology, profile: NodeProfile, previous: NodePlan | None
) -> Reasoned[Mapping[int, PagesBySize]]:
    """Return the wanted pages by NUMA node and size; a size that is not in the result is left as it is.

    A size that the profile names is managed on every NUMA node. Raises PlanError for a NUMA node or a size
    that the machine does not have, for more pages than a NUMA node has memory, and for more pages under a
    running kubelet where MemTotal would grow with them.
    """
    nodes = {node.id: node for node in sorted(topology.numa_nodes, key=lambda node: node.id)}
    wanted: dict[int, dict[str, int]] = {node: {} for node in nodes}
    decisions = []
    released, left = _no_longer_named(topology, profile, previous)
    for size in sorted({entry.size for entry in profile.hugepages} | released):
        for node in nodes.values():
            if size in node.hugepages:
                wanted[node.id][size] = 0
    for index, entry in enumerate(profile.hugepages):
        pages, reason = _pages(nodes, entry, f"{SUBJECT}[{index}]")
        for node_id, count in pages.items():
            wanted[node_id][entry.size] += count
        per_node = ", ".join(f"{count} on NUMA node {node}" for node, count in pages.items())
        decisions.append(Decision(f"{SUBJECT}.{entry.size}", per_node, reason))
    for size in sorted(released):
        decisions.append(
            Decision(f"{SUBJECT}.{size}", "0", "an earlier plan set this pool, this profile does not")
        )
    for size in sorted(left):
        reason = "an earlier plan names this pool, but it has not the pages that plan says: it never set it"
        decisions.append(Decision(f"{SUBJECT}.{size}", "left as it is", reason))
    for node in nodes.values():
        _refuse_too_many(node, wanted[node.id])
    _refuse_memory_that_grows(topology, profile, wanted)
    return Reasoned(wanted, tuple(decisions))


def pools_after(node: NumaNode, wanted: PagesBySize) -> dict[str, int]:
    """Return the pools that a NUMA node will have, by size: the wanted ones and the untouched."""
    there = {size: pool.total for size, pool in node.hugepages.items()}
    return dict(sorted({**there, **wanted}.items()))


def pool_bytes(pools: PagesBySize) -> int:
    """Return the memory that pools take."""
    return sum(count * parse_bytes(size) for size, count in pools.items())


def describe_pools(node: NumaNode, wanted: PagesBySize) -> str:
    """Say what pools take, for a message's arithmetic."""
    parts = [
        f"{count} x {size} {'wanted' if size in wanted else 'already there'}"
        for size, count in pools_after(node, wanted).items()
        if count
    ]
    return " + ".join(parts) or "no huge pages"


def _no_longer_named(
    topology: NodeTopology, profile: NodeProfile, previous: NodePlan | None
) -> tuple[set[str], set[str]]:
    """Return which sizes of an earlier plan are given back, and which are left as they are.

    A plan is saved before it is carried out, which may be never: only pools that are as it says are its own.
    """
    there = {node.id: pools_after(node, {}) for node in topology.numa_nodes}
    named = {entry.size for entry in profile.hugepages}
    released: set[str] = set()
    left: set[str] = set()
    for node in previous.numa_nodes if previous else ():
        for size in node.hugepages.keys() - named:
            as_planned = there.get(node.id, {}).get(size) == node.hugepages[size]
            (released if as_planned else left).add(size)
    return released - left, left


def _pages(nodes: Mapping[int, NumaNode], entry: Hugepages, field: str) -> tuple[dict[int, int], str]:
    targets = _targets(nodes, entry, field)
    for node in targets:
        if entry.size not in node.hugepages:
            offered = ", ".join(sorted(node.hugepages, key=parse_bytes)) or "none"
            raise PlanError(
                f"NUMA node {node.id} has no pool for pages of {entry.size}",
                where=f"{field}.size",
                remedy=f"choose a size that it has: {offered}",
            )
    if entry.count_per_numa_node is not None:
        return {
            node.id: entry.count_per_numa_node for node in targets
        }, "the profile's count for each NUMA node"
    if entry.count is not None:
        each, rest = divmod(entry.count, len(targets))
        spread = {node.id: each + (index < rest) for index, node in enumerate(targets)}
        return (
            spread,
            f"the profile's total of {entry.count}, spread evenly with the remainder on the lowest nodes",
        )
    share = Fraction((entry.share or "0%").removesuffix("%")) / 100
    return {
        node.id: int((node.memory_bytes or 0) * share) // parse_bytes(entry.size) for node in targets
    }, f"{entry.share} of each NUMA node's memory, rounded down to whole pages"


def _targets(nodes: Mapping[int, NumaNode], entry: Hugepages, field: str) -> list[NumaNode]:
    named = (
        entry.numa_nodes
        if entry.numa_nodes is not None
        else ()
        if entry.numa_node is None
        else (entry.numa_node,)
    )
    absent = sorted(set(named) - set(nodes))
    if absent:
        raise PlanError(
            f"there is no NUMA node {format_cpulist(absent)}",
            where=f"{field}.{'numa_nodes' if entry.numa_nodes else 'numa_node'}",
            remedy=f"choose among {format_cpulist(nodes)}",
        )
    # Memory without CPUs is a GPU's or CXL memory: pages go there only when the profile names the node.
    targets = [nodes[node] for node in sorted(set(named))] or [
        node for node in nodes.values() if node.cpus and node.memory_bytes
    ]
    if not targets:
        raise PlanError("no NUMA node has both CPUs and memory", where=field, remedy="name numa_nodes")
    return targets


def _refuse_too_many(node: NumaNode, wanted: PagesBySize) -> None:
    memory = node.memory_bytes or 0
    taken = pool_bytes(pools_after(node, wanted))
    if any(wanted.values()) and taken > memory:
        raise PlanError(
            f"NUMA node {node.id} has {format_bytes(memory)} of memory, but {describe_pools(node, wanted)} "
            f"= {format_bytes(taken)}",
            where=SUBJECT,
            remedy=f"ask for {format_bytes(taken - memory)} less on NUMA node {node.id}",
        )


def _refuse_memory_that_grows(
    topology: NodeTopology, profile: NodeProfile, wanted: Mapping[int, PagesBySize]
) -> None:
    """Refuse where each new page gives the memory of its page structs back (mm/hugetlb_vmemmap.c).

    MemTotal grows with the pages then, and does not shrink when they go: what the node will offer cannot be
    said before, and a kubelet with the memory manager's old state file would not start again.
    """
    runs = topology.kubelet is not None and topology.kubelet.running
    optimized = profile.tuning.sysctls.get(VMEMMAP, topology.sysctls.get(VMEMMAP, "0")) != "0"
    grows = any(
        count > node.hugepages[size].total
        for node in topology.numa_nodes
        for size, count in wanted[node.id].items()
    )
    if runs and optimized and grows:
        raise PlanError(
            f"{VMEMMAP} is on: MemTotal grows with every new page, under a kubelet that runs",
            where=SUBJECT,
            remedy=f'set {VMEMMAP}: "0" in tuning.sysctls, or reserve the pages by kernel arguments',
        )
