"""How many NUMA nodes and hints a kubelet walks, and what is said where they are too many."""

from dataclasses import replace

import pytest

from numaforge.kubelet.admission.hint_work import (
    CPU_MANAGER,
    DEVICE_MANAGER,
    MEMORY_MANAGER,
    HintWork,
    Policies,
    fewer_numa_nodes,
    hint_work,
)
from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.machine.topology.model import NodeTopology
from tests.fixtures.machines import (
    big_512,
    dgx_h100,
    epyc_gpu,
    epyc_nps4,
    gb200_cdmm,
    grace_blackwell_tray,
    laptop,
    machine,
    quad_gh200,
)
from tests.fixtures.tables import cases


def work(topology: NodeTopology, minor: int, policies: Policies) -> HintWork:
    return hint_work(topology, KubeletVersion(minor), policies)


ALIGNED = Policies("static", "Static", "best-effort")
CPUS_ALONE = Policies("static", "None", "best-effort")


@cases(
    "topology, minor, policies, walked",
    {
        "before 1.36 devices are looked for on all NUMA nodes": (
            grace_blackwell_tray(),
            35,
            CPUS_ALONE,
            {DEVICE_MANAGER: 34, CPU_MANAGER: 2},
        ),
        "from 1.36 on only where there are some": (
            grace_blackwell_tray(),
            36,
            CPUS_ALONE,
            {DEVICE_MANAGER: 2, CPU_MANAGER: 2},
        ),
        "the memory manager walks all NUMA nodes under every topology policy": (
            grace_blackwell_tray(),
            36,
            Policies("static", "Static", "none"),
            {MEMORY_MANAGER: 34},
        ),
        "a machine without devices has no device hints": (epyc_nps4(), 35, CPUS_ALONE, {CPU_MANAGER: 8}),
        "none asks for no hints": (grace_blackwell_tray(), 35, Policies("static", "None", "none"), {}),
        "of an unknown machine nothing is claimed": (replace(dgx_h100(), numa_nodes=()), 36, ALIGNED, {}),
    },
)
def test_walked_numa_nodes_are_counted_per_manager(topology, minor, policies, walked):
    assert work(topology, minor, policies).numa_nodes == walked


def test_eight_numa_nodes_take_21_minutes_as_in_kubernetes_131738():
    done = work(epyc_gpu(), 33, Policies("static", "Static", "restricted", ["1Gi"]))
    assert done.combinations == 255**4
    assert str(done) == (
        "the topology manager compares 4,228,250,625 combinations of hints (255 x 255 x 255 x 255, for GPUs, "
        "CPUs, memory, hugepages-1Gi) for each container that asks for all of them, about 21 minutes"
    )


@cases(
    "topology, policies, slow",
    {
        "two NUMA nodes": (dgx_h100(), ALIGNED, False),
        "one NUMA node": (laptop(), ALIGNED, False),
        "eight NUMA nodes, CPUs and GPUs": (epyc_gpu(), CPUS_ALONE, False),
        "eight NUMA nodes, CPUs, memory and GPUs": (epyc_gpu(), ALIGNED, True),
        "single-numa-node filters": (epyc_gpu(), Policies("static", "Static", "single-numa-node"), False),
        "sixteen NUMA nodes": (big_512(), CPUS_ALONE, True),
    },
)
def test_hint_merge_is_slow_from_a_million_combinations_or_16_numa_nodes(topology, policies, slow):
    assert work(topology, 36, policies).slow is slow


@pytest.mark.parametrize(("nodes", "endless"), [(19, False), (20, True)])
def test_hint_merge_is_endless_from_twenty_numa_nodes(nodes, endless):
    topology = machine(packages=nodes, cores_per_numa_node=1)
    assert bool(work(topology, 36, CPUS_ALONE).endless) is endless


TRAY = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerPolicy: best-effort
topologyManagerPolicyOptions: {max-allowable-numa-nodes: "34"}
"""


def test_check_warns_of_a_kubelet_that_hangs():
    report = check(TRAY, topology=grace_blackwell_tray(), version="1.35")
    assert report.starts
    (found,) = [each for each in report.findings if each.id == "NF516"]
    assert found.evidence == (
        "the device manager walks 2^34 = 17,179,869,184 sets of NUMA nodes for each container: "
        "no pod is admitted in time"
    )
    assert found.remedy == (
        "use kubelet 1.36 or later, which walks only NUMA nodes with devices; "
        "or set topologyManagerPolicy: none"
    )


def test_check_accepts_a_kubelet_that_walks_only_numa_nodes_with_devices():
    report = check(TRAY, topology=grace_blackwell_tray(), version="1.36")
    assert "NF516" not in [each.id for each in report.findings]


@cases(
    "topology, words",
    {
        "a maker that is not known": (big_512(), ["(NPS on EPYC, SNC on Xeon)"]),
        "AMD": (replace(big_512(), cpu_vendor="AuthenticAMD"), ["(NPS1, and no L3 as NUMA domain)"]),
        "Intel": (replace(big_512(), cpu_vendor="GenuineIntel"), ["(SNC)"]),
        "Arm has neither": (replace(big_512(), architecture="aarch64"), ["firmware"]),
        "Grace's firmware lists those of GPUs in every mode of their memory": (gb200_cdmm(), []),
        "four GH200, too": (quad_gh200(), []),
    },
)
def test_advice_for_fewer_numa_nodes_uses_the_vendor_firmware_terms(topology, words):
    told = fewer_numa_nodes(topology)
    assert len(told) == len(words)
    assert all(each.endswith(word) for each, word in zip(told, words, strict=True))
