"""What a pod gets under the rules of two neighbouring minors, on both sides of each change."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from numaforge.kubelet.admission.node import Node
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import KubeletConfigError
from numaforge.machine.topology.model import NodeTopology
from tests.fixtures.machines import GIB, machine, with_gaps
from tests.fixtures.tables import cases

SMALL = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB)
FOUR_NODES = machine(packages=2, numa_nodes_per_package=2, cores_per_numa_node=4, numa_memory_bytes=8 * GIB)
CACHES = machine(packages=1, cores_per_numa_node=8, cores_per_l3=4, numa_memory_bytes=16 * GIB)
GAPS = with_gaps(SMALL)
STATIC = {
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0,8",
    "evictionHard": {"memory.available": "0%"},
}
BEST_EFFORT = {**STATIC, "topologyManagerPolicy": "best-effort"}
MEMORY = {
    **BEST_EFFORT,
    "memoryManagerPolicy": "Static",
    "systemReserved": {"memory": "2Gi"},
    "reservedMemory": [{"numaNode": node, "limits": {"memory": "1Gi"}} for node in (0, 1)],
}
UNCORE = {**STATIC, "cpuManagerPolicyOptions": {"prefer-align-cpus-by-uncorecache": "true"}}
WHOLE_CORES = {**STATIC, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
OF_POD = {"resources": {"limits": {"cpu": "2", "memory": "2Gi"}}}
GPU_NODES = {"nvidia.com/gpu": [1, 3]}
Spec = dict[str, Any]


def pod(cpu: int, memory: str = "1Gi", **more: str) -> Spec:
    limits = {"cpu": str(cpu), "memory": memory, **more}
    return {"containers": [{"name": "main", "resources": {"limits": limits}}]}


def with_sidecar(spec: Spec) -> Spec:
    return spec | {"initContainers": [{"name": "side", "restartPolicy": "Always", "resources": {}}]}


def answer(topology: NodeTopology, config: Mapping[str, Any], specs: Sequence[Spec], minor: int) -> str:
    """Return the last pod's CPUs, or the message of its refusal."""
    devices = GPU_NODES if "nvidia.com/gpu" in str(specs) else {}
    node = Node(topology, config, devices, predicates=False, version=f"1.{minor}")
    *_, last = (node.admit(spec, f"p{number}") for number, spec in enumerate(specs))
    return format_cpulist(last.cpus.get("main", frozenset())) if last.admitted else str(last.message)


BARE = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
VIOLATED = "[memorymanager] preferred hint violates NUMA node allocation"
SHORTAGE = "not enough cpus available to satisfy request"
NO_CORES = "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 0, "


def unexpected(error: str) -> str:
    return f"Allocate failed due to {error}, which is unexpected"


@cases(
    "node, since, before, after",
    {
        "devices on one NUMA node: other NUMA nodes give hints as well, up to 1.35": (
            (FOUR_NODES, BEST_EFFORT, pod(2, **{"nvidia.com/gpu": "2"})),
            36,
            "1,17",
            "4,20",
        ),
        "memory across NUMA nodes beside that of one: admitted up to 1.31": (
            (SMALL, MEMORY, pod(2), pod(10, "20Gi")),
            32,
            "2,4-7,10,12-15",
            unexpected(VIOLATED),
        ),
        "an odd part of a cache: rounded up from 1.34 on": (
            (CACHES, UNCORE, pod(4), pod(3)),
            34,
            "3-4,11",
            "4-5,12",
        ),
        "no core is free: said from 1.32 on": (
            (SMALL, WHOLE_CORES, pod(14), pod(2)),
            32,
            "SMT Alignment Error: requested 2 cpus not multiple cpus per core = 2",
            f"{NO_CORES}requested CPUs = 2, CPUs per core = 2",
        ),
        "a shortage of CPUs: with its numbers from 1.29 on": (
            (SMALL, STATIC, pod(15)),
            29,
            unexpected(SHORTAGE),
            unexpected(f"{SHORTAGE}: requested=15, available=14"),
        ),
        "resources of a pod: it is pinned by its containers up to 1.33": (
            (SMALL, STATIC, pod(2) | OF_POD),
            34,
            "1,9",
            "",
        ),
        "resources of a pod: a container without limits is never pinned": (
            (SMALL, STATIC, BARE | OF_POD),
            34,
            "",
            "",
        ),
        "sidecars: refused by 1.28 while its gate is off": (
            (SMALL, STATIC, with_sidecar(pod(2))),
            29,
            'Init container "side" may not have a non-default restartPolicy',
            "",
        ),
    },
)
def test_each_minor_has_its_own_rules(node, since, before, after):
    topology, config, *specs = node
    assert answer(topology, config, specs, since - 1) == before
    assert answer(topology, config, specs, since) == after


def test_restarted_kubelet_releases_nothing_before_all_pods_are_known():
    state = {
        "cpu_manager_state": '{"policyName":"static","defaultCpuSet":"0,5-8,13-15",'
        '"entries":{"a":{"main":"1-4,9-11"},"b":{"main":"12"}},"checksum":0}'
    }
    node = Node(SMALL, WHOLE_CORES, {}, state=state, predicates=False, version="1.35")
    node.restart_with(["a", "b"])
    refused, again = node.admit(pod(7), "a"), node.admit(pod(8), "b")
    assert (refused.admitted, again.reason) == (False, "SMTAlignmentError")
    assert node.admit(pod(8), "new").admitted


@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
def test_id_gaps_with_prefer_closest_make_a_kubelet_panic(policy):
    config = {
        "topologyManagerPolicy": policy,
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
    }
    with pytest.raises(KubeletConfigError, match=r"the ids of the NUMA nodes have gaps \(0,2\)"):
        Node(GAPS, config)


def test_id_gaps_are_harmless_when_numa_nodes_are_not_compared():
    options = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
    assert Node(GAPS, {"topologyManagerPolicy": "single-numa-node", **options}).pods == ()
