"""The kind of machine that a profile was made for, and the notice for another kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from numaforge.lib.reasons import Notice
from numaforge.lib.section import Section
from numaforge.roles.rdma.section import PciId

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.profile import NodeProfile


_Count = Annotated[int, Field(ge=1, strict=True)]


class MadeFor(Section):
    """The machines that the values were chosen for; a plan for any other machine has a notice."""

    gpus: tuple[PciId, ...] | None = Field(
        default=None,
        description="PCI vendor and device of its GPUs. An empty list: no GPUs.",
        examples=[["10de:2330", "10de:2335"]],
    )
    numa_nodes_per_package: tuple[_Count, ...] | None = Field(
        default=None,
        description="NUMA nodes with CPUs per package (NPS1 to NPS4, sub-NUMA clusters).",
        examples=[[2, 4]],
    )
    l3_per_numa_node: Literal["one", "several"] | None = Field(
        default=None,
        description="Whether the CPUs of a NUMA node have one L3 cache or several.",
        examples=["several"],
    )


def kind_notices(topology: NodeTopology, profile: NodeProfile) -> Iterator[Notice]:
    """Yield a notice for a machine of another kind; unknown properties count as matching."""
    differences = [*_gpus(topology, profile), *_numa_nodes(topology, profile), *_caches(topology, profile)]
    if differences:
        yield Notice(
            "another-machine",
            f"{profile.name} was made for another kind of machine: {'; '.join(differences)}. Choose the "
            "profile of this kind, or set made_for: null where the values are meant for both",
        )


def _gpus(topology: NodeTopology, profile: NodeProfile) -> Iterator[str]:
    accepted = profile.made_for.gpus
    if accepted is None:
        return
    ids = {f"{gpu.vendor}:{gpu.device}" for gpu in topology.gpus}
    strange = sorted(gpu for gpu in ids if gpu not in accepted and gpu.partition(":")[0] not in accepted)
    if strange or (accepted and not ids):
        yield f"GPUs {', '.join(strange) or 'none'} instead of {', '.join(accepted) or 'none'}"


def _numa_nodes(topology: NodeTopology, profile: NodeProfile) -> Iterator[str]:
    accepted = profile.made_for.numa_nodes_per_package
    nodes: dict[int, set[int | None]] = defaultdict(set)
    for core in topology.cores:
        nodes[core.package].add(core.numa_node)
    if accepted is None or any(None in node_ids for node_ids in nodes.values()):
        return
    counts = sorted({len(node_ids) for node_ids in nodes.values()} - {*accepted})
    if counts:
        yield f"{_numbers(counts)} NUMA nodes with CPUs in a package instead of {_numbers(accepted)}"


def _caches(topology: NodeTopology, profile: NodeProfile) -> Iterator[str]:
    accepted = profile.made_for.l3_per_numa_node
    nodes = [node for node in topology.numa_nodes if node.cpus]
    if accepted is None or not nodes or not topology.l3_caches:
        return
    most = max(sum(bool(cache.cpus & node.cpus) for cache in topology.l3_caches) for node in nodes)
    if (most > 1) != (accepted == "several"):
        yield f"{'several L3 caches' if most > 1 else 'one L3 cache'} in a NUMA node instead of {accepted}"


def _numbers(numbers: list[int] | tuple[int, ...]) -> str:
    return " or ".join(map(str, numbers))
