"""Hints: what is worked out by sizes is what the kubelet's walk over all sets of NUMA nodes finds."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.kubelet.admission.demand import Demand
from numaforge.kubelet.admission.hints import Hints
from numaforge.kubelet.admission.machine import CpuPlace, CpuTopology, MachineInfo, MachineNode
from numaforge.kubelet.admission.masks import bits, fewest, mask_of
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import Pod

GIB = 2**30


def every_set(nodes: int) -> list[int]:
    """Return the sets of NUMA nodes as IterateBitMasks does: by size, then lexicographically."""
    ids = list(bits(nodes))
    return [mask_of(chosen) for size in range(1, len(ids) + 1) for chosen in combinations(ids, size)]


def walked_cpus(node: Node, requested: int) -> tuple[set[int], set[int]]:
    manager = node.cpu_manager
    nodes = manager.topology.numa_nodes
    smallest, found = len(nodes), []
    for mask in every_set(manager.topology.numa_mask):
        cpus = manager.topology.cpus_in_numa_nodes(bits(mask))
        if cpus.bit_count() >= requested:
            smallest = min(smallest, mask.bit_count())
        if (cpus & manager.available).bit_count() >= requested:
            found.append(mask)
    return {mask for mask in found if mask.bit_count() == smallest}, set(found)


def walked_devices(node: Node, count: int) -> tuple[set[int], set[int]]:
    plugin = node.device_manager.plugins["x/y"]
    smallest, found = plugin.nodes.bit_count(), []
    available = plugin.healthy & ~plugin.allocated
    for mask in every_set(plugin.nodes):
        near = plugin.in_nodes(mask)
        if near.bit_count() >= count:
            smallest = min(smallest, mask.bit_count())
        if (near & available).bit_count() >= count:
            found.append(mask)
    return {mask for mask in found if mask.bit_count() == smallest}, set(found)


def walked_memory(node: Node, sizes: dict[str, int]) -> tuple[set[int], set[int]]:
    manager = node.memory_manager
    smallest, found = len(manager.nodes), []
    for mask in every_set(mask_of(manager.nodes)):
        held = [manager.nodes[number] for number in bits(mask)]
        if any(sum(each.allocatable(r) for each in held) < size for r, size in sizes.items()):
            continue
        smallest = min(smallest, mask.bit_count())
        if len(held) == 1 and held[0].group.bit_count() > 1:
            continue
        if len(held) > 1 and any(each.assignments and each.group != mask for each in held):
            continue
        if any(sum(each.free(r) for each in held) < size for r, size in sizes.items()):
            continue
        found.append(mask)
    return {mask for mask in found if mask.bit_count() == smallest}, set(found)


def answers(hints: Any) -> tuple[set[int], set[int]]:
    return (set(hints.preferred), set(hints.masks)) if isinstance(hints, Hints) else (set(), set())


@st.composite
def machines(draw: st.DrawFn) -> Node:
    """Draw a node with NUMA nodes of different sizes, a few of them with devices."""
    cores = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    memory = [draw(st.integers(2, 6)) * GIB for _ in cores]
    pages = [draw(st.sampled_from([0, GIB])) for _ in cores]
    places, number = {}, 0
    for numa_node, count in enumerate(cores):
        for _ in range(count):
            places[number] = CpuPlace(number, 0, numa_node, numa_node)
            number += 1
    nodes = tuple(
        MachineNode(i, memory[i], {"hugepages-1Gi": pages[i]}, dict.fromkeys(range(len(cores)), 10))
        for i in range(len(cores))
    )
    devices = draw(st.lists(st.integers(0, len(cores) - 1), min_size=1, max_size=6))
    config = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "memoryManagerPolicy": "Static",
        "kubeReserved": {"memory": "512Mi"},
        "evictionHard": {"memory.available": "0%"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "512Mi"}}],
        "topologyManagerPolicy": draw(
            st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])
        ),
    }
    return Node(MachineInfo(nodes, CpuTopology.of(places), sum(memory)), config, {"x/y": devices})


PODS = st.tuples(st.integers(1, 6), st.integers(1, 8), st.integers(0, 1), st.integers(1, 4))


def pod(name: str, cpus: int, memory: int, pages: int, devices: int) -> Pod:
    limits = {"cpu": str(cpus), "memory": f"{memory * 512}Mi", "x/y": str(devices)}
    limits |= {"hugepages-1Gi": "1Gi"} if pages else {}
    return Pod.from_manifest({"containers": [{"name": "main", "resources": {"limits": limits}}]}, name)


@given(machines(), st.lists(PODS, max_size=4), PODS)
def test_hints_by_size_match_the_exhaustive_walk(node, before, asked):
    for number, shape in enumerate(before):
        node.admit(pod(f"before-{number}", *shape))
    wish = pod("asked", *asked)
    demand = Demand.of(wish, node.settings.gates)
    [container] = wish.containers
    cpus = node.cpu_manager.container_hints(demand, container)["cpu"]
    assert answers(cpus) == walked_cpus(node, asked[0])
    sizes = dict(demand.memory[container.name] or {})
    memory = node.memory_manager.container_hints(demand, container)
    assert all(answers(memory.get(resource)) == walked_memory(node, sizes) for resource in sizes)
    near = node.device_manager.container_hints(demand, container)["x/y"]
    assert answers(near) == walked_devices(node, asked[3])


@pytest.mark.parametrize(
    ("amounts", "wanted", "count"),
    [
        pytest.param([4, 8, 2], 8, 1, id="the-largest-alone"),
        pytest.param([4, 8, 2], 9, 2, id="the-two-largest"),
        pytest.param([4, 8, 2], 15, 4, id="one-too-many-where-all-are-too-little"),
    ],
)
def test_fewest_numa_nodes_that_reach_an_amount_are_counted(amounts, wanted, count):
    assert fewest(amounts, wanted) == count
