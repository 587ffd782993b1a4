"""Which pods a planned node admits, and the default policy that follows from it."""

import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import Container, Pod
from numaforge.machine.topology.model import HugepagePool, NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import ready_profiles
from numaforge.roles.kubelet.largest_pods import LargestPod
from tests.fixtures.machines import (
    GIB,
    KUBEADM_CONFIG,
    big_512,
    dgx_h100,
    epyc_gpu,
    grace_blackwell_tray,
    kubeadm_kubelet,
    lab_node,
)
from tests.fixtures.plans import decided, notices, planned

GPU = "nvidia.com/gpu"


def plan(topology: NodeTopology, version: str | None = None, **wish: Any) -> NodePlan:
    return planned(topology, version, memory={"system_reserved": "2Gi"}, kubelet=wish)


def gpus_near(*numa_nodes: int | None) -> NodeTopology:
    """Return a DGX H100 with one GPU near each of these NUMA nodes."""
    dgx = dgx_h100()
    gpus = zip(dgx.gpus, numa_nodes, strict=False)
    return replace(dgx, gpus=tuple(replace(gpu, numa_node=node) for gpu, node in gpus))


def notice(chosen: NodePlan) -> str | None:
    return notices(chosen).get("whole-node-pod-refused")


def shapes(chosen: NodePlan) -> list[tuple[int, int]]:
    return [(pod.devices, pod.cpus) for pod in chosen.largest_pods]


DEFAULTS = {
    "GPUs on both sockets": (dgx_h100(), "best-effort"),
    "a GPU per NUMA node": (epyc_gpu(), "best-effort"),
    "a Grace tray": (grace_blackwell_tray(), "best-effort"),
    "all GPUs on one socket": (gpus_near(1, 1, 1, 1), "single-numa-node"),
    "GPUs without a NUMA node": (gpus_near(None, None), "single-numa-node"),
    "no GPUs": (lab_node(), "single-numa-node"),
}


@pytest.mark.parametrize(("topology", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_default_policy_admits_a_pod_with_all_gpus(topology, expected) -> None:
    chosen = plan(topology)
    assert decided(chosen, "kubelet.topologyManagerPolicy")[0] == expected
    assert notice(chosen) is None
    whole = chosen.largest_pods[-1]
    limits = {"cpu": whole.cpus, "memory": whole.memory_bytes, GPU: whole.devices}
    resources = {name: Fraction(amount) for name, amount in limits.items() if amount}
    assert whole.devices == len(topology.gpus)
    pod = Pod("whole", (Container("main", resources, resources),))
    assert Node(topology, chosen.kubelet.settings).admit(pod).admitted


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("single-numa-node", [*((n, 106) for n in range(1, 5)), *((n, 0) for n in range(5, 9))]),
        ("restricted", [*((n, 106) for n in range(1, 5)), *((n, 212) for n in range(5, 9))]),
        ("best-effort", [(n, 212) for n in range(1, 9)]),
        ("none", [(n, 212) for n in range(1, 9)]),
    ],
)
def test_every_gpu_count_has_its_largest_pod(wanted: str, expected: list[tuple[int, int]]) -> None:
    assert shapes(plan(dgx_h100(), topology_manager_policy=wanted)) == expected


def test_without_gpus_the_largest_pod_overall_is_reported() -> None:
    (largest,) = plan(lab_node()).largest_pods
    assert (largest.resource, largest.devices, largest.cpus) == ("", 0, 4)


def test_memory_and_huge_pages_come_from_the_same_numa_node() -> None:
    dgx = dgx_h100()
    pools = {"1Gi": HugepagePool(16, 16)}
    dgx = replace(dgx, numa_nodes=tuple(replace(node, hugepages=pools) for node in dgx.numa_nodes))
    chosen = plan(dgx, topology_manager_policy="single-numa-node")
    pods = {pod.devices: pod for pod in chosen.largest_pods}
    assert pods[4] == LargestPod(
        GPU, 4, 106, chosen.memory.numa_nodes[1].allocatable_memory_bytes, {"1Gi": 16 * GIB}
    )
    assert pods[5] == LargestPod(GPU, 5, 0, 0)


def test_planned_huge_pages_count_for_the_largest_pod() -> None:
    pages = [{"size": "1Gi", "count_per_numa_node": 8}]
    chosen = planned(dgx_h100(), extends="inference-mig", hugepages=pages)
    assert chosen.largest_pods[0].hugepages_bytes == {"1Gi": 8 * GIB}


REMEDY = (
    "where such pods run, set kubelet.topology_manager_policy: best-effort, as the profiles training and "
    "best-effort-mixed do"
)


def test_whole_node_pod_that_never_fits_is_noticed() -> None:
    assert notice(plan(dgx_h100(), topology_manager_policy="single-numa-node")) == (
        f"single-numa-node refuses every container with all 8 nvidia.com/gpu, the most is 4; {REMEDY}"
    )


def test_whole_node_pod_that_fits_only_at_full_size_is_noticed() -> None:
    message = notice(plan(dgx_h100(), topology_manager_policy="restricted", topology_manager_scope="pod"))
    assert message.startswith(
        "restricted refuses a pod with all 8 nvidia.com/gpu unless all else that it asks for needs as many "
        "NUMA nodes: with one core and 1Gi it is refused, with 212 CPUs and "
    )


def test_existing_kubelet_policy_is_judged() -> None:
    text = KUBEADM_CONFIG + "topologyManagerPolicy: single-numa-node\n"
    chosen = plan(replace(dgx_h100(), kubelet=kubeadm_kubelet(config_text=text)))
    assert notice(chosen) is not None


def test_merged_policy_is_judged_as_the_kubelet_reads_it() -> None:
    chosen = plan(dgx_h100(), "1.29.0", topology_manager_policy="single-numa-node")
    assert shapes(chosen)[3:5] == [(4, 106), (5, 0)]


@pytest.mark.parametrize("name", ready_profiles())
def test_only_the_small_pod_ready_profile_refuses_a_whole_node_pod(name: str) -> None:
    chosen = planned(dgx_h100(), extends=name, mig={"gpus": []})
    assert (notice(chosen) is not None) == (name == "inference-mig")


@pytest.mark.parametrize("strategy", ["mixed", "single"])
def test_largest_pod_has_one_mig_device(strategy: str) -> None:
    chosen = planned(dgx_h100(), extends="inference-mig", mig={"strategy": strategy})
    assert [pod.devices for pod in chosen.largest_pods] == [1]
    assert notice(chosen) is None


def test_unknown_machine_has_no_largest_pod() -> None:
    assert planned(replace(dgx_h100(), memory_bytes=None, numa_nodes=())).largest_pods == ()


@pytest.mark.parametrize("wanted", ["single-numa-node", "best-effort"])
def test_512_cpus_and_8_gpus_are_planned_within_half_a_second(wanted: str) -> None:
    topology = replace(big_512(), gpus=epyc_gpu().gpus)
    plan(topology, topology_manager_policy=wanted)
    started = time.process_time()
    plan(topology, topology_manager_policy=wanted)
    assert time.process_time() - started < 0.5
