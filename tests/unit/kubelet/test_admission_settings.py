"""What of a kubelet configuration decides admission, and which configurations no kubelet starts with."""

from dataclasses import replace

import pytest

from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.masks import ids_of
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.settings import Settings
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import KubeletConfigError
from tests.fixtures.machines import GIB, MIB, epyc_nps4, grace_memory_only, machine
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

SMALL = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB)


@cases(
    "config, reserved_bytes",
    {
        "the default threshold where there is no map": ({}, 100 * MIB),
        "an empty map has no threshold": ({"evictionHard": {}}, 0),
        "a quantity": ({"evictionHard": {"memory.available": "1Gi"}}, GIB),
        "a percentage, rounded as float32": ({"evictionHard": {"memory.available": "5%"}}, 1717986944),
        "all of it means none": ({"evictionHard": {"memory.available": "100%"}}, 0),
        "defaults are merged in on request": (
            {"evictionHard": {"nodefs.available": "10%"}, "mergeDefaultEvictionSettings": True},
            100 * MIB,
        ),
        "both reservations count": (
            {"kubeReserved": {"memory": "1Gi"}, "systemReserved": {"memory": "1Gi"}, "evictionHard": {}},
            2 * GIB,
        ),
    },
)
def test_reserved_memory_includes_the_eviction_threshold(config, reserved_bytes):
    assert Settings.from_config(config, MachineInfo.from_topology(SMALL)).reserved_bytes == reserved_bytes


@cases("config, reserved", CASES["reserved_cpus"])
def test_reserved_cpus_match_the_kubelet(config, reserved):
    node = Node(SMALL, {"cpuManagerPolicy": "static", **config}, {})
    assert format_cpulist(ids_of(node.cpu_manager.reserved)) == reserved


@cases("config, message", CASES["no_kubelet"])
def test_configuration_that_prevents_a_kubelet_start_is_refused(config, message):
    with pytest.raises(KubeletConfigError, match=message):
        Node(SMALL, config, {})


def test_more_numa_nodes_than_allowed_are_refused():
    topology = grace_memory_only()
    with pytest.raises(KubeletConfigError, match="more than 8 NUMA Nodes"):
        Node(topology, {"topologyManagerPolicy": "restricted"}, {})
    options = {"max-allowable-numa-nodes": str(len(topology.numa_nodes))}
    Node(topology, {"topologyManagerPolicy": "none", "topologyManagerPolicyOptions": options}, {})


@pytest.mark.parametrize("distances", [{}, {0: 10}], ids=["no distances", "not to all NUMA nodes"])
@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_prefer_closest_needs_the_distances_of_every_numa_node(policy, distances):
    near, other = SMALL.numa_nodes
    blind = replace(SMALL, numa_nodes=(near, replace(other, distances=distances)))
    options = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
    with pytest.raises(KubeletConfigError, match="error getting NUMA distances from cadvisor"):
        Node(blind, {"topologyManagerPolicy": policy, **options}, {})
    Node(blind, {"topologyManagerPolicy": "none", **options}, {})
    Node(SMALL, {"topologyManagerPolicy": policy, **options}, {})


def test_l3_cache_of_a_whole_numa_node_is_not_an_uncore_cache():
    """cadvisor counts it as the node's own, so the CPU manager falls back to the socket."""
    topology = machine(packages=2, numa_nodes_per_package=2, cores_per_numa_node=4, cores_per_l3=4)
    assert MachineInfo.from_topology(topology).cpus.num_uncores == 2
    assert MachineInfo.from_topology(epyc_nps4()).cpus.num_uncores == 24
