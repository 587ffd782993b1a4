"""The largest pod by arithmetic is the largest that the simulated kubelet admits."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from numaforge.kubelet.admission.device_manager import Device
from numaforge.kubelet.admission.largest_pod import EmptyNode, PodShape
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import Container, Pod
from numaforge.machine.topology.model import HugepagePool, NodeTopology
from tests.fixtures.machines import GIB, dgx_h100, machine

GPU = "nvidia.com/gpu"


def pod(shape: PodShape) -> Pod:
    limits = {"cpu": Fraction(shape.cpus), **{r: Fraction(size) for r, size in shape.sizes.items()}}
    if shape.devices:
        limits[GPU] = Fraction(shape.devices)
    return Pod("shape", (Container("main", limits, limits),))


@st.composite
def nodes(draw: st.DrawFn) -> tuple[NodeTopology, dict[str, Any], dict[str, tuple[Device, ...]]]:
    """Draw a machine, a configuration under which its kubelet starts, and GPUs near some NUMA nodes."""
    packages = draw(st.integers(1, 2))
    per_package = draw(st.integers(1, 2))
    cores = draw(st.integers(1, 4))
    threads = draw(st.sampled_from((1, 2)))
    count = packages * per_package
    pages = draw(st.sampled_from((0, 1)))
    topology = machine(
        packages=packages,
        numa_nodes_per_package=per_package,
        cores_per_numa_node=cores,
        threads=threads,
        numa_memory_bytes=[draw(st.integers(5, 9)) * GIB for _ in range(count)],
        hugepages={"1Gi": HugepagePool(pages, pages)},
    )
    all_cores = [core.cpus for core in topology.cores]
    reserved = draw(st.sets(st.sampled_from(range(len(all_cores))), min_size=1))
    cpus = sorted(cpu for core in reserved for cpu in all_cores[core])
    memory = draw(st.sampled_from(("None", "Static")))
    shares = [draw(st.integers(1, 3)) for _ in range(count)]
    config: dict[str, Any] = {
        "cpuManagerPolicy": draw(st.sampled_from(("none", "static"))),
        "reservedSystemCPUs": ",".join(map(str, cpus)),
        "topologyManagerPolicy": draw(
            st.sampled_from(("none", "best-effort", "restricted", "single-numa-node"))
        ),
        "topologyManagerScope": draw(st.sampled_from(("container", "pod"))),
        "memoryManagerPolicy": memory,
        "systemReserved": {"memory": f"{sum(shares)}Gi"},
        "evictionHard": {"memory.available": "0%"},
    }
    if memory == "Static":
        config["reservedMemory"] = [
            {"numaNode": node, "limits": {"memory": f"{share}Gi"}} for node, share in enumerate(shares)
        ]
    if config["cpuManagerPolicy"] == "static":
        option = draw(st.sampled_from((None, "full-pcpus-only", "align-by-socket")))
        assume(not (option == "align-by-socket" and config["topologyManagerPolicy"] == "single-numa-node"))
        config["cpuManagerPolicyOptions"] = {option: "true"} if option else {}
        config["featureGates"] = {"CPUManagerPolicyAlphaOptions": True}
    near = st.one_of(st.none(), st.sets(st.sampled_from(range(count)), min_size=1, max_size=2).map(frozenset))
    gpus = draw(st.lists(near, max_size=4))
    return topology, config, {GPU: tuple(Device(str(n), where) for n, where in enumerate(gpus))}


@given(nodes(), st.data())
def test_arithmetic_agrees_with_the_simulated_kubelet(drawn, data):
    topology, config, gpus = drawn
    empty = EmptyNode(Node(topology, config, gpus), GPU)
    shape = PodShape(
        devices=data.draw(st.integers(0, len(gpus[GPU]))),
        cpus=data.draw(st.integers(1, 4)) * empty.step,
        memory_bytes=data.draw(st.integers(1, 30)) * GIB,
        hugepages_bytes={"1Gi": data.draw(st.integers(0, 4)) * GIB},
    )
    assert empty.admits(shape) == Node(topology, config, gpus).admit(pod(shape)).admitted


@given(nodes())
def test_nothing_beyond_the_largest_pod_is_admitted(drawn):
    topology, config, gpus = drawn
    empty = EmptyNode(Node(topology, config, gpus), GPU)
    for devices in range(len(gpus[GPU]) + 1):
        largest = empty.largest(devices)
        if largest is None:
            continue
        assert Node(topology, config, gpus).admit(pod(largest)).admitted
        cpus, memory = largest.cpus, largest.memory_bytes
        for larger in (
            PodShape(devices, cpus + empty.step, memory, largest.hugepages_bytes),
            PodShape(devices, cpus, memory + 1, largest.hugepages_bytes),
            PodShape(devices, cpus, memory, {"1Gi": largest.hugepages_bytes["1Gi"] + GIB}),
        ):
            assert not Node(topology, config, gpus).admit(pod(larger)).admitted


@given(nodes(), st.data())
def test_every_pod_is_refused_where_no_largest_pod_exists(drawn, data):
    topology, config, gpus = drawn
    empty = EmptyNode(Node(topology, config, gpus), GPU)
    refused = [count for count in range(len(gpus[GPU]) + 1) if empty.largest(count) is None]
    assume(refused)
    shape = PodShape(
        devices=data.draw(st.sampled_from(refused)),
        cpus=data.draw(st.integers(1, 8)) * empty.step,
        memory_bytes=data.draw(st.integers(1, 30)) * GIB,
        hugepages_bytes={"1Gi": data.draw(st.integers(0, 4)) * GIB},
    )
    assert not Node(topology, config, gpus).admit(pod(shape)).admitted


def aligned(policy: str, **more: Any) -> EmptyNode:
    config = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "reservedSystemCPUs": "0,56,112,168",
        "topologyManagerPolicy": policy,
        "evictionHard": {"memory.available": "0%"},
        **more,
    }
    return EmptyNode(Node(dgx_h100(), config), GPU)


@pytest.mark.parametrize(
    ("policy", "devices", "cpus"),
    [
        pytest.param("single-numa-node", 4, 110, id="half the GPUs of two sockets fit one NUMA node"),
        pytest.param("single-numa-node", 8, None, id="all of them never do"),
        pytest.param("restricted", 4, 110, id="restricted keeps half of them on one NUMA node"),
        pytest.param("restricted", 8, 220, id="restricted admits all of them with the CPUs of both"),
        pytest.param("best-effort", 8, 220, id="best-effort admits all of them"),
    ],
)
def test_largest_pod_of_a_dgx_depends_on_the_policy(policy: str, devices: int, cpus: int | None) -> None:
    largest = aligned(policy).largest(devices)
    assert (largest.cpus if largest else None) == cpus


def test_restricted_refuses_all_gpus_with_cpus_of_one_numa_node() -> None:
    assert not aligned("restricted").admits(PodShape(8, 2, GIB))
    assert aligned("best-effort").admits(PodShape(8, 2, GIB))
