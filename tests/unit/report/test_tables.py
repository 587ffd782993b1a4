"""Tables at 80 columns: what an admin needs at a glance, and nothing cut off."""

from dataclasses import replace

import pytest

from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Notice
from numaforge.machine.topology.model import HugepagePool, KubeletInstall, NodeTopology, NumaNode
from numaforge.planning.capacity import PredictedAllocatable
from numaforge.report.plan import plan_in_full
from numaforge.report.tables import topology_tables
from numaforge.roles.kubelet.largest_pods import LargestPod
from tests.fixtures import machines
from tests.fixtures.plans import notices, planned
from tests.fixtures.terminal import printed

GIB = 2**30

MACHINES = {
    "two CPUs": machines.two_cpu_vm(),
    "laptop": machines.laptop(),
    "16 CPUs on 4 NUMA nodes": machines.lab_node(),
    "DGX H100": machines.dgx_h100(),
    "EPYC": machines.epyc_nps4(),
    "memory-only NUMA nodes": machines.grace_memory_only(),
    "512 CPUs": machines.big_512(),
    "shared NICs": machines.hgx_a100(),
    "management functions": machines.hgx_b200(),
}


def row(text: str, first: str) -> list[str]:
    """Return the words of the line of a table that begins with `first`."""
    below_the_heading = text.partition("\n\n")[2]
    return next(line.split() for line in below_the_heading.splitlines() if line.split()[:1] == [first])


def section(text: str, title: str) -> str:
    return text.partition(f"\n{title}\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize("topology", MACHINES.values(), ids=MACHINES)
def test_machine_and_plan_fit_80_columns_uncut(topology):
    shown = [topology_tables(topology)]
    if len(topology.cores) > 1:
        shown.append(plan_in_full(planned(replace(topology, kubelet=None))))
    for text in map(printed, shown):
        assert max(len(line) for line in text.splitlines()) <= 80
        assert "…" not in text


RAILS = {
    "shared": (machines.hgx_a100(), "1  mlx5_1  GPU0, GPU1  PXB       GPU1     ACTIVE"),
    "storage": (machines.hgx_a100(), "mlx5_8  none                           ACTIVE"),
    "no-nic": (machines.hgx_b200(), "mlx5_8   none                     ACTIVE  manages NVSwitches"),
    "one-for-two": (machines.nvlink_bridges(), "0  mlx5_0  GPU0, GPU1  PHB       GPU0, GPU1  ACTIVE"),
}


@pytest.mark.parametrize(("topology", "rail"), RAILS.values(), ids=RAILS)
def test_each_rdma_device_shows_its_gpus(topology, rail):
    assert rail in [line.strip() for line in printed(topology_tables(topology)).splitlines()]


def test_numa_node_shows_package_cpus_cores_caches_memory_and_pools():
    text = printed(topology_tables(machines.lab_node()))
    assert row(text, "2") == ["2", "1", "8-11", "2", "1", "x", "16", "MiB", "2", "GiB", "none"]


def test_pool_in_use_shows_its_free_pages():
    topology = machines.machine(cores_per_numa_node=2, hugepages={"2Mi": HugepagePool(512, 100)})
    assert "512 x 2Mi, 100 free" in printed(topology_tables(topology))


def test_long_cpulist_is_wrapped_not_cut():
    topology = machines.machine(packages=2, cores_per_numa_node=16, threads=1)
    interleaved = [replace(node, cpus=frozenset(range(node.id, 32, 2))) for node in topology.numa_nodes]
    text = printed(topology_tables(replace(topology, numa_nodes=tuple(interleaved))))
    assert all(str(cpu) in text.replace(",", " ").split() for cpu in range(32))


DISTANCES = {
    "by package": (machines.lab_node(), "12 inside a package, 32 between packages"),
    "one NUMA node in a package": (machines.dgx_h100(), "32 between packages"),
    "each NUMA node where packages do not explain it": (
        replace(
            machines.lab_node(),
            numa_nodes=tuple(
                NumaNode(n, frozenset({n}), 1, {m: 10 + 10 * abs(n - m) for m in range(3)}, {})
                for n in range(3)
            ),
        ),
        "0 is 20 from 1, 30 from 2; 1 is 20 from 0,2; 2 is 20 from 1, 30 from 0",
    ),
    "a GPU's memory is no package": (machines.grace_memory_only(), "80 to NUMA nodes of GPUs"),
    "those of GPUs are near one package and far from the other": (
        machines.grace_blackwell_tray(),
        "40 between packages, 80 or 120 to NUMA nodes of GPUs",
    ),
}


@pytest.mark.parametrize(("topology", "expected"), DISTANCES.values(), ids=DISTANCES)
def test_numa_distances_are_one_line(topology: NodeTopology, expected):
    assert f"Distances: {expected}\n" in printed(topology_tables(topology), width=120)


GPU_MEMORY = {
    "the driver's": (
        machines.gb200_cdmm(),
        "managed by the driver (CDMM): NVreg_CoherentGPUMemoryMode is driver",
    ),
    "the node's": (machines.gb200_nvl72_tray(), "the node's own: NUMA nodes 2,10,18,26 have 744Gi"),
    "a guest": (machines.gb200_vm(), "managed by the driver (CDMM): NVreg_CoherentGPUMemoryMode is driver"),
    "cards keep theirs": (machines.dgx_h100(), None),
}


@pytest.mark.parametrize(("topology", "said"), GPU_MEMORY.values(), ids=GPU_MEMORY)
def test_gpu_memory_line_names_the_manager_on_grace_machines(topology: NodeTopology, said: str | None):
    lines = printed(topology_tables(topology), width=120).splitlines()
    assert [line for line in lines if line.startswith("GPU memory")] == (
        [f"GPU memory: {said}"] if said else []
    )


def test_gpus_and_nics_show_their_numa_node():
    text = printed(topology_tables(machines.dgx_h100()))
    assert row(text, "0000:9d:00.0")[1] == "1"
    assert row(text, "0000:18:00.0")[:4] == ["0000:18:00.0", "0", "ibp24s0", "mlx5_0"]


def test_device_without_a_known_numa_node_is_shown_as_unknown():
    topology = machines.dgx_h100()
    gpu = replace(topology.gpus[0], numa_node=None)
    assert row(printed(topology_tables(replace(topology, gpus=(gpu,)))), gpu.pci_address)[1] == "unknown"


def test_text_from_a_host_is_not_read_as_markup():
    topology = machines.dgx_h100()
    gpu = replace(topology.gpus[0], name="[red]H100[/red]")
    nic = replace(topology.nics[0], interface="[/]", driver="[b]")
    text = printed(topology_tables(replace(topology, hostname="[bold]x", gpus=(gpu,), nics=(nic,))))
    assert all(raw in text for raw in ("[bold]x", "[red]H100[/red]", "[/]", "[b]"))


@pytest.fixture
def lab_plan():
    memory = {"kube_reserved": "256Mi", "system_reserved": "256Mi"}
    return planned(
        machines.lab_node(),
        cpus={"reserved": {"cores_per_numa_node": 1}},
        memory={**memory, "eviction_hard": {"memory.available": "100Mi"}},
        hugepages=[{"size": "2Mi", "count_per_numa_node": 256}],
        tuning={"governor": "performance", "sysctls": {"vm.swappiness": 1}, "swap": "off"},
    )


def test_planned_numa_node_shows_both_cpu_sets_and_all_memory(lab_plan):
    text = printed(plan_in_full(lab_plan))
    memory, reserved, for_pods = 2015, 612 // 4, 2015 - 612 // 4 - 256 * 2
    assert row(text, "1") == ["1", "4-5", "6-7", str(memory), str(reserved), "256", "x", "2Mi", str(for_pods)]
    assert "256 x 2Mi" in " ".join(row(text, "1"))
    assert "1024 x 2Mi" in " ".join(row(text, "all"))


def test_existing_pages_are_distinguished_from_planned_pages():
    pools = {"2Mi": HugepagePool(512, 512)}
    plan = planned(machines.machine(cores_per_numa_node=2, numa_memory_bytes=32 * GIB, hugepages=pools))
    assert plan.hugepages.unchanged(0) == {"2Mi": 512}
    text = printed(plan_in_full(plan), width=120)
    memory, reserved, *pages, for_pods = row(text, "0")[3:]
    assert pages == ["512", "x", "2Mi", "(there)"]
    assert float(memory) == round(float(reserved) + 1.0 + float(for_pods), 1)


ALLOCATABLE = PredictedAllocatable(7500, 3 * 2**30, {"2Mi": 2**30}, {"nvidia.com/gpu": 8})
OF_GPUS = PredictedAllocatable(7500, 3 * 2**30, gpu_memory_bytes=2**30)
SHOWN = {
    "the exact sum of memory": (
        {},
        "kubeReserved 256Mi + systemReserved 256Mi + evictionHard 100Mi = 612Mi",
    ),
    "mode and owner of a file": ({}, "/etc/numaforge/plan.json  0600 root:root"),
    "Allocatable in Kubernetes quantities": (
        {"allocatable": ALLOCATABLE},
        "Allocatable predicted: cpu 7500m, memory 3Gi, hugepages-2Mi 1Gi, nvidia.com/gpu 8\n",
    ),
    "GPU memory apart": ({"allocatable": OF_GPUS}, "memory 3Gi (1 GiB of the memory is that of GPUs)\n"),
    "a notice with its id": (
        {"notices": (Notice("uneven-smt", "Core 3 has one thread."),)},
        "uneven-smt: Core 3 has one thread.",
    ),
}


@pytest.mark.parametrize(("changes", "words"), SHOWN.values(), ids=SHOWN)
def test_plan_in_full_shows_it_without_colours(lab_plan, changes, words):
    text = printed(plan_in_full(replace(lab_plan, **changes)), width=120)
    assert words in text
    assert "\x1b" not in text


def test_every_decision_is_printed_with_its_reason(lab_plan):
    text = section(printed(plan_in_full(lab_plan), width=2000), "Decisions")
    for decision in lab_plan.decisions:
        assert f" = {decision.value}\n" in text
        assert decision.reason in text
    assert text.splitlines()[0] == "kubelet.cpuManagerPolicy = static"


def test_gpu_counts_with_the_same_largest_pod_share_a_row(lab_plan):
    pods = [LargestPod("nvidia.com/gpu", n, 110, 2**40, {"1Gi": 2**34}) for n in (1, 2)]
    pods += [LargestPod("nvidia.com/gpu", n, 0, 0) for n in (3, 4)]
    text = printed(plan_in_full(replace(lab_plan, largest_pods=tuple(pods))))
    lines = [line.split() for line in text.splitlines() if "nvidia.com/gpu" in line]
    assert lines == [
        ["1-2", "nvidia.com/gpu", "110", "1", "TiB", "16", "GiB", "of", "1Gi"],
        ["3-4", "nvidia.com/gpu", "none"],
    ]


@pytest.mark.parametrize(
    ("kubelet", "said"),
    [
        pytest.param(None, "no kubelet is installed", id="none"),
        pytest.param({"problem": "kubelet --version ended with 1"}, "ended with 1", id="broken"),
        pytest.param({}, "the kubelet's program was not found", id="a-unit-alone"),
    ],
)
def test_kubelet_without_version_has_the_same_wording_in_table_and_plan(kubelet, said):
    install = None if kubelet is None else KubeletInstall(None, "kubelet.service", None, None, (), **kubelet)
    machine = replace(machines.lab_node(), kubelet=install)
    assert said in " ".join(printed(topology_tables(machine)).split())
    try:
        told = "; ".join(notices(planned(machine, extends="training")).values())
    except PlanError as error:
        told = str(error)
    assert said in told
