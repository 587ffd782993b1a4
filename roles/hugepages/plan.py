"""How many huge pages of each size every NUMA node gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import format_bytes, parse_bytes
from numaforge.lib.reasons import Decision, Reasoned
from numaforge.machine.topology.model import HugepagePool, NodeTopology, NumaNode
from numaforge.machine.topology.numa import page_size

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.hugepages.section import Hugepages


SUBJECT = "hugepages"
VMEMMAP = "vm.hugetlb_optimize_vmemmap"


PagesBySize = Mapping[str, int]
# Memory varies by some 60 MB between boots: shares stay based on the memory in the earlier plan while the
# difference is within a hundredth, or within this.
_STEADY_PART = 100
_A_BOOT_MOVES = 64 * 2**20

WantedPages = Mapping[int | None, PagesBySize]
"""Pages by NUMA node and size; by None for the machine, where the kernel shows no NUMA nodes."""


@dataclass(frozen=True)
class PlannedPool:
    """The pages of one size on a NUMA node; None: on the machine, where the kernel shows no NUMA nodes."""

    numa_node: int | None
    size: str  # "2Mi"
    pages: int


@dataclass(frozen=True)
class HugepagesPlan:
    """The pools that the plan sets, and those with pages that it leaves as they are (`kept`).

    `memory` is what shares are computed from, in bytes by NUMA node, by 0 where the kernel shows none.
    """

    pools: tuple[PlannedPool, ...] = ()
    kept: tuple[PlannedPool, ...] = ()
    memory: Mapping[int, int] = field(default_factory=dict)

    @property
    def pages(self) -> WantedPages:
        """The planned pages by NUMA node, then by size."""
        return {pool.numa_node: self.planned(pool.numa_node) for pool in self.pools}

    def planned(self, numa_node: int | None) -> dict[str, int]:
        """Return the planned pages of a NUMA node by size."""
        return {pool.size: pool.pages for pool in self.pools if pool.numa_node == numa_node}

    def unchanged(self, numa_node: int | None) -> dict[str, int]:
        """Return the pages of a NUMA node that stay as they are, by size."""
        return {pool.size: pool.pages for pool in self.kept if pool.numa_node == numa_node}


def share_memory(topology: NodeTopology, previous: NodePlan | None) -> dict[int, int]:
    """Return the memory in bytes that shares are based on, by NUMA node; by 0 where the kernel shows none.

    It is the earlier plan's while a boot alone may explain the difference, so that the pools stay the same.
    """
    earlier: Mapping[int, int] = previous.hugepages.memory if previous else {}
    current = {node.id: node.memory_bytes or 0 for node in pool_places(topology).values()}
    return {
        node: earlier_size
        if abs((earlier_size := earlier.get(node, size)) - size) <= max(size // _STEADY_PART, _A_BOOT_MOVES)
        else size
        for node, size in current.items()
    }


def pool_places(topology: NodeTopology) -> dict[int | None, NumaNode]:
    """Return the NUMA nodes, which have pools, by id; by None the machine, where the kernel shows none."""
    if topology.numa_nodes:
        return {node.id: node for node in sorted(topology.numa_nodes, key=lambda node: node.id)}
    return {None: NumaNode(0, topology.online, topology.memory_bytes, {}, topology.hugepages)}


def with_pools(machine: NodeTopology, pages: WantedPages) -> NodeTopology:
    """Return the machine with these pages in its pools; other pools stay as they are."""

    def pools(node_id: int | None, present: Mapping[str, HugepagePool]) -> dict[str, HugepagePool]:
        node_pages = pages.get(node_id, {})
        return {size: pool.of(node_pages.get(size, pool.total)) for size, pool in present.items()}

    nodes = tuple(replace(node, hugepages=pools(node.id, node.hugepages)) for node in machine.numa_nodes)
    return replace(machine, numa_nodes=nodes, hugepages=pools(None, machine.hugepages))


def pools_after(node: NumaNode, pages: PagesBySize) -> dict[str, int]:
    """Return the pools that a NUMA node will have, by size: the wanted ones and the untouched."""
    present = {size: pool.total for size, pool in node.hugepages.items()}
    return dict(sorted({**present, **pages}.items()))


def pool_bytes(pools: PagesBySize) -> int:
    return sum(count * parse_bytes(size) for size, count in pools.items())


def describe_pools(node: NumaNode, pages: PagesBySize) -> str:
    """Return the pools as a sum, for a message's arithmetic."""
    parts = [
        f"{count} x {size} {'wanted' if size in pages else 'already there'}"
        for size, count in pools_after(node, pages).items()
        if count
    ]
    return " + ".join(parts) or "no huge pages"


def _no_longer_named(
    topology: NodeTopology, profile: NodeProfile, previous: NodePlan | None
) -> tuple[set[str], set[str]]:
    """Return the sizes of an earlier plan to release, and those to leave as they are.

    A plan is saved before it is carried out, which may never happen: only pools that match it are ours.
    """
    current = {node_id: pools_after(node, {}) for node_id, node in pool_places(topology).items()}
    named_sizes = {entry.size for entry in profile.hugepages}
    released: set[str] = set()
    kept_sizes: set[str] = set()
    for node_id, pools in previous.hugepages.pages.items() if previous else ():
        for size in pools.keys() - named_sizes:
            as_planned = current.get(node_id, {}).get(size) == pools[size]
            (released if as_planned else kept_sizes).add(size)
    return released - kept_sizes, kept_sizes


def _node_name(node_id: int | None) -> str:
    return "the machine" if node_id is None else f"NUMA node {node_id}"


def _pages(
    nodes: Mapping[int | None, NumaNode],
    memory: Mapping[int, int],
    entry: Hugepages,
    field: str,
    kernel_page_size: str | None,
) -> tuple[dict[int | None, int], str]:
    targets = _targets(nodes, entry, field)
    for node_id, node in targets.items():
        if entry.size not in node.hugepages:
            sizes = set.intersection(*({*node_pools.hugepages} for node_pools in targets.values()))
            offered = sorted(sizes, key=parse_bytes)
            other_kernel = kernel_page_size not in (None, "4Ki")
            raise PlanError(
                f"{_node_name(node_id)} has no pool for pages of {entry.size}"
                + (f": its kernel has pages of {kernel_page_size}" if other_kernel else ""),
                where=f"{field}.size",
                remedy=f"choose a size that it has: {', '.join(offered)}"
                if offered
                else f"leave {field} out: its kernel has no size that all of these places have",
            )
    if entry.count_per_numa_node is not None:
        return dict.fromkeys(targets, entry.count_per_numa_node), "the profile's count for each NUMA node"
    if entry.count is not None:
        per_node, rest = divmod(entry.count, len(targets))
        spread = {node_id: per_node + (index < rest) for index, node_id in enumerate(targets)}
        how = "spread evenly with the remainder on the lowest nodes"
        return spread, f"the profile's total of {entry.count}, {how}"
    share = Fraction((entry.share or "0%").removesuffix("%")) / 100
    return {
        node_id: int(memory[node.id] * share) // parse_bytes(entry.size) for node_id, node in targets.items()
    }, f"{entry.share} of each NUMA node's memory, rounded down to whole pages"


def _targets(
    nodes: Mapping[int | None, NumaNode], entry: Hugepages, field: str
) -> dict[int | None, NumaNode]:
    node_ids = entry.numa_nodes or (() if entry.numa_node is None else (entry.numa_node,))
    absent = sorted(set(node_ids) - set(nodes))
    if absent:
        known_ids = [node_id for node_id in nodes if node_id is not None]
        name = f"{field}.{'numa_nodes' if entry.numa_nodes else 'numa_node'}"
        raise PlanError(
            f"there is no NUMA node {format_cpulist(absent)}",
            where=name,
            remedy=f"choose among {format_cpulist(known_ids)}" if known_ids else f"leave {name} out",
        )
    # Memory without CPUs belongs to a GPU or is CXL: pages go there only when the profile names the node.
    targets: dict[int | None, NumaNode] = {node_id: nodes[node_id] for node_id in sorted(set(node_ids))} or {
        node_id: node for node_id, node in nodes.items() if node.cpus and node.memory_bytes
    }
    if not targets:
        with_memory = [node_id for node_id, node in nodes.items() if node.memory_bytes]
        raise PlanError(
            "the machine's memory is not known"
            if None in nodes
            else "no NUMA node is known to have both CPUs and memory",
            where=field,
            remedy=f"set {field}.numa_nodes: {with_memory}" if with_memory else f"leave {field} out",
        )
    return targets


def _refuse_too_many_pages(node_id: int | None, node: NumaNode, pages: PagesBySize) -> None:
    memory = node.memory_bytes or 0
    total = pool_bytes(pools_after(node, pages))
    if any(pages.values()) and total > memory:
        raise PlanError(
            f"{_node_name(node_id)} has {format_bytes(memory)} of memory, but {describe_pools(node, pages)} "
            f"= {format_bytes(total)}",
            where=SUBJECT,
            remedy=f"ask for {format_bytes(total - memory)} less on {_node_name(node_id)}",
        )


def _refuse_memory_that_grows(
    topology: NodeTopology, profile: NodeProfile, vmemmap: str | None, pages: WantedPages
) -> None:
    """Refuse more pages where each frees the memory of its page structs (mm/hugetlb_vmemmap.c).

    MemTotal then grows with the pages, and does not shrink when they go: the node's allocatable cannot be
    predicted, and a kubelet with the memory manager's old state file would not start again.
    """
    runs = topology.kubelet is not None and topology.kubelet.running
    optimized = profile.tuning.sysctls.get(VMEMMAP, vmemmap) not in (None, "0")
    grows = any(
        count > node.hugepages[size].total
        for node_id, node in pool_places(topology).items()
        for size, count in pages[node_id].items()
    )
    if runs and optimized and grows:
        raise PlanError(
            f"{VMEMMAP} is on: MemTotal grows with every new page, under a kubelet that runs",
            where=SUBJECT,
            remedy=f'set {VMEMMAP}: "0" in tuning.sysctls, or reserve the pages by kernel arguments',
        )


def plan_hugepages(
    machine: NodeTopology, profile: NodeProfile, earlier: NodePlan | None
) -> Reasoned[HugepagesPlan]:
    """Return the wanted pages of each pool; sizes that are not in it stay as they are.

    A size that the profile names is managed on every NUMA node; a kernel without NUMA nodes has one pool of
    each size, below /sys/kernel/mm/hugepages. Raises PlanError for a NUMA node or a size that the machine
    does not have, for more pages than a NUMA node has memory, and for more pages under a running kubelet
    where MemTotal would grow with them.
    """
    nodes = pool_places(machine)
    memory = share_memory(machine, earlier)
    pages_by_node: dict[int | None, dict[str, int]] = {node_id: {} for node_id in nodes}
    decisions = []
    released, kept_sizes = _no_longer_named(machine, profile, earlier)
    for size in sorted({entry.size for entry in profile.hugepages} | released):
        for node_id, node in nodes.items():
            if size in node.hugepages:
                pages_by_node[node_id][size] = 0
    kernel_page_size = page_size(machine)
    for index, entry in enumerate(profile.hugepages):
        pages, reason = _pages(nodes, memory, entry, f"{SUBJECT}[{index}]", kernel_page_size)
        for node_id, count in pages.items():
            pages_by_node[node_id][entry.size] += count
        summary = ", ".join(f"{count} on {_node_name(node_id)}" for node_id, count in pages.items())
        decisions.append(Decision(f"{SUBJECT}.{entry.size}", summary, reason))
    for size in sorted(released):
        reason = "an earlier plan set this pool, this profile does not"
        decisions.append(Decision(f"{SUBJECT}.{size}", "0", reason))
    for size in sorted(kept_sizes):
        reason = "an earlier plan names this pool, but without effect: the pool does not have its pages"
        decisions.append(Decision(f"{SUBJECT}.{size}", "left as it is", reason))
    for node_id, node in nodes.items():
        _refuse_too_many_pages(node_id, node, pages_by_node[node_id])
    _refuse_memory_that_grows(machine, profile, machine.sysctls.get(VMEMMAP), pages_by_node)
    shares = any(entry.share is not None for entry in profile.hugepages)
    kept = {
        node_id: {
            size: count
            for size, count in pools_after(node, {}).items()
            if count and size not in pages_by_node[node_id]
        }
        for node_id, node in nodes.items()
    }
    planned = HugepagesPlan(_pools(pages_by_node), _pools(kept), memory if shares else {})
    return Reasoned(planned, tuple(decisions))


def _pools(pages: WantedPages) -> tuple[PlannedPool, ...]:
    return tuple(
        PlannedPool(node_id, size, count)
        for node_id, sizes in pages.items()
        for size, count in sorted(sizes.items())
    )
