"""What pods will see of NUMA nodes without CPUs or memory, and of packages that differ."""

from dataclasses import replace

import pytest

from numaforge.machine.topology.model import NodeTopology, NumaNode
from numaforge.roles.memory.numa_notices import gpu_memory_bytes, numa_notices
from tests.fixtures.machines import dgx_h100, gb200_cdmm, gb200_nvl72_tray, kubeadm_kubelet, lab_node, machine
from tests.fixtures.plans import after, notices, planned

GIB = 2**30


def with_memory(*sizes: int | None) -> NodeTopology:
    topology = machine(packages=2, cores_per_numa_node=4)
    nodes = topology.numa_nodes
    more = [NumaNode(index, frozenset(), 0, {}, {}) for index in range(len(nodes), len(sizes))]
    sized = (replace(node, memory_bytes=size) for node, size in zip([*nodes, *more], sizes, strict=True))
    return replace(topology, memory_bytes=sum(size or 0 for size in sizes), numa_nodes=tuple(sized))


def with_cpus(first: int, second: int) -> NodeTopology:
    topology = machine(packages=2, cores_per_numa_node=4)
    packages = zip(topology.packages, (first, second), strict=True)
    return replace(
        topology,
        packages=tuple(replace(each, cpus=frozenset(sorted(each.cpus)[:n])) for each, n in packages),
    )


UNEVEN = "uneven-packages"
NOTICES: dict[str, tuple[NodeTopology, dict[str, str]]] = {
    "an-even-machine-has-none": (dgx_h100(), {}),
    "cdmm-leaves-those-of-gpus-empty": (gb200_cdmm(), {}),
    "cpus-without-memory": (
        with_memory(64 * GIB, 0),
        {"cpus-without-memory": "NUMA nodes 1 have CPUs and no memory: pods there use memory of another"},
    ),
    "memory-that-is-not-known-is-no-alarm": (with_memory(64 * GIB, None), {}),
    "an-empty-numa-node-is-none": (with_memory(64 * GIB, 64 * GIB, 0), {}),
    "packages-with-other-cpus": (with_cpus(8, 4), {UNEVEN: "packages have 4 to 8 CPUs: the largest"}),
    "packages-with-other-memory": (
        with_memory(64 * GIB, 32 * GIB),
        {UNEVEN: "packages have 32Gi to 64Gi of memory"},
    ),
    "what-firmware-takes-of-one-is-even": (with_memory(64 * GIB, 62 * GIB), {}),
}


@pytest.mark.parametrize(("topology", "expected"), NOTICES.values(), ids=NOTICES.keys())
def test_unusual_numa_layouts_are_noticed(topology, expected):
    found = {notice.id: notice.message for notice in numa_notices(topology)}
    assert found.keys() == expected.keys()
    assert all(words in found[name] for name, words in expected.items())


def test_allocatable_reports_how_much_memory_is_gpu_memory():
    tray = replace(gb200_nvl72_tray(), kubelet=kubeadm_kubelet("1.36.3"))
    allocatable = planned(tray, kubelet={"topology_manager_policy": "none"}).allocatable
    assert allocatable.gpu_memory_bytes == gpu_memory_bytes(tray) > 0
    assert allocatable.gpu_memory_bytes < allocatable.memory_bytes
    assert planned(lab_node()).allocatable.gpu_memory_bytes == 0


@pytest.mark.parametrize(
    ("mem_total", "expected"),
    [
        pytest.param(128 * GIB, [], id="alike"),
        pytest.param(124 * GIB, [], id="an older kernel counts other pages"),
        pytest.param(None, [], id="not known"),
        pytest.param(192 * GIB, ["memory-differs"], id="more than the NUMA nodes have"),
        pytest.param(96 * GIB, ["memory-differs"], id="less than they have"),
    ],
)
def test_disagreeing_memory_sizes_are_noticed(mem_total: int | None, expected: list[str]) -> None:
    topology = replace(with_memory(64 * GIB, 64 * GIB), memory_bytes=mem_total)
    assert [notice.id for notice in numa_notices(topology)] == expected
    assert [*numa_notices(replace(with_memory(64 * GIB, None), memory_bytes=GIB))] == []


TRAY, EMPTY = gb200_nvl72_tray(), gb200_cdmm()
POOL = {"hugepages": [{"size": "2Mi", "count": 512, "numa_nodes": [2, 10]}]}


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        pytest.param(POOL, "512 x 2Mi on NUMA nodes 2,10 are taken of GPUs' memory", id="on those of GPUs"),
        pytest.param({"hugepages": [{"size": "2Mi", "count": 512}]}, None, id="beside the CPUs"),
        pytest.param({}, None, id="no pool"),
    ],
)
def test_pools_in_gpu_memory_are_noticed(profile, words):
    message = notices(planned(TRAY, **profile)).get("pools-in-gpu-memory")
    assert message is None if words is None else message and message.startswith(words)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        pytest.param(TRAY, EMPTY, "the earlier plan counted 744Gi of GPUs' memory", id="an upgrade to CDMM"),
        pytest.param(EMPTY, TRAY, "744Gi of GPUs' memory are NUMA nodes now", id="back to NUMA nodes"),
        pytest.param(TRAY, TRAY, None, id="as it was"),
        pytest.param(EMPTY, EMPTY, None, id="CDMM all along"),
        pytest.param(None, EMPTY, None, id="never planned"),
    ],
)
def test_gpu_memory_mode_change_since_the_earlier_plan_is_noticed(before, now, words):
    machine = after(now, planned(before)) if before else now
    message = notices(planned(machine)).get("gpu-memory-changed")
    assert message is None if words is None else message and message.startswith(words)
