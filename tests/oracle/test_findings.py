"""What an independent reading once found wrong, each on the machine that shows it.

| number | what was wrong | held by |
|---|---|---|
| 1 | many NUMA nodes: the kubelet walks 2^n sets | `test_1_*`; tests/unit/kubelet/test_hint_work.py |
| 2 | prefer-closest-numa-nodes without distances | `test_2_*` |
| 3 | unknown MemTotal taken for 0 | `test_3_*` |
| 4 | a plan stands that `check` refuses (cgroup v1) | `test_4_*`; test_plans.py asks `check` |
| 5 | the kubelet's CPUs are not those of the masks | `test_5_*`; tests/unit/planning/test_kubelet_view.py |
| 6 | GPUs whose NUMA node is unknown; MI300X | `test_6_*` |
| 7 | system tasks on pods' cores | test_kubelet_plan.py, `STRICTNESS`; the page docs/reserved.md |
| 8 | a split that policy None does not read | `test_8_*` |
| 8 | huge pages without NUMA nodes | `test_8_*`; test_hugepages_plan.py; tests/ssh/test_site.py |
| 9 | remedies that do not work | tests/unit/planning/test_remedies.py |
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from numaforge.kubelet.admission.fit import Scenario, fit
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.node import Admission, Node
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.kubelet.startup.check import check
from numaforge.lib.errors import PlanError
from numaforge.machine.snapshot import Snapshot
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile, ready_profiles
from tests.fixtures.machines import KUBEADM_CONFIG, grace_blackwell_tray, many_numa_nodes, mi300x
from tests.machines.files import machine_files, stored

SECONDS = 20.0  # for an answer that took none in a hundred
MACHINES = {file.name: file for file in machine_files()}


def captured(name: str) -> NodeTopology:
    return read_topology(stored(name).snapshot())


def settings(topology: NodeTopology, **wish: Any) -> dict[str, Any]:
    prepared = replace(topology, swap_bytes=0, cgroup_version=2)
    plan = plan_node(prepared, load_profile(wish), "1.36.0")
    assert plan.kubelet
    return dict(plan.kubelet.settings)


def static(topology: NodeTopology, **more: str) -> dict[str, Any]:
    """Return a configuration that an admin wrote by hand: every manager is on."""
    nodes = [node.id for node in topology.numa_nodes if node.cpus and node.memory_bytes]
    return {
        **yaml.safe_load(KUBEADM_CONFIG),
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "topologyManagerPolicy": "restricted",
        "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "34"},
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": f"{len(nodes)}Gi"},
        "evictionHard": {"memory.available": "0%"},
        "reservedMemory": [{"numaNode": node, "limits": {"memory": "1Gi"}} for node in nodes],
        **more,
    }


def pod(cpus: int, gpus: int = 0) -> dict[str, Any]:
    limits = {"cpu": str(cpus), "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"containers": [{"name": "main", "resources": {"limits": limits}}]}


# ---- 1: many NUMA nodes ----

WALKED = [
    pytest.param(grace_blackwell_tray(), {"memoryManagerPolicy": "Static"}, id="34 with GPU memory"),
    pytest.param(many_numa_nodes(32), {"memoryManagerPolicy": "None"}, id="32 with CPUs"),
]


@pytest.mark.parametrize(("topology", "more"), WALKED)
def test_1_check_warns_of_a_kubelet_that_never_answers(topology, more):
    config = static(topology, **more)
    if more["memoryManagerPolicy"] == "None":
        del config["reservedMemory"]
    report = check(yaml.safe_dump(config), topology=topology, version="1.36.0")
    assert report.starts, report.error
    assert "no pod is admitted in time" in str(
        next(finding for finding in report.findings if finding.id == "NF516").evidence
    )


@pytest.mark.parametrize(("topology", "more"), WALKED)
def test_1_admit_and_fit_say_at_once_why_there_is_no_answer(topology, more):
    config = static(topology, **more)
    started = time.monotonic()
    with pytest.raises(KubeletHangError, match=r"would walk every set of 3[24] NUMA nodes"):
        Node(topology, config).admit(pod(4, 1))
    report = fit(Scenario(topology, config, None), Pod.from_manifest(pod(4, 1), "p"))
    assert "would walk every set" in (report.configured.error or "")
    assert time.monotonic() - started < SECONDS


def test_1_what_is_planned_for_34_numa_nodes_is_answered():
    topology = many_numa_nodes(2)
    planned = {**yaml.safe_load(KUBEADM_CONFIG), **settings(topology, extends="training")}
    started = time.monotonic()
    assert Node(topology, planned).admit(pod(100, 2)).admitted
    assert time.monotonic() - started < SECONDS


def test_1_alignment_over_32_numa_nodes_with_cpus_is_refused_with_what_helps():
    with pytest.raises(PlanError, match=r"2\^32 .*\n  show fewer NUMA nodes in the firmware .*; or set"):
        settings(many_numa_nodes(32), extends="training")


def test_1_a_profile_that_asks_for_no_alignment_gets_none_where_the_kubelet_would_never_answer():
    topology = captured("epyc-9654-l3-as-numa")
    chosen = settings(topology)
    assert (chosen["cpuManagerPolicy"], chosen["topologyManagerPolicy"]) == ("static", "none")
    assert Node(topology, chosen).admit(pod(8)).admitted


# ---- 2, 3, 4: no plan that its own judge refuses ----


def test_2_prefer_closest_is_left_out_where_the_kernel_exports_no_distances():
    topology = many_numa_nodes(2)
    blind = replace(topology, numa_nodes=tuple(replace(node, distances={}) for node in topology.numa_nodes))
    aligned = {"topology_manager_policy": "best-effort", "memory_manager_policy": "None"}
    for name in ready_profiles():
        chosen = settings(blind, extends=name, kubelet=aligned).get("topologyManagerPolicyOptions", {})
        assert "prefer-closest-numa-nodes" not in chosen, name
    near = captured("epyc-9654-nps4")
    assert "prefer-closest-numa-nodes" in settings(near, kubelet=aligned)["topologyManagerPolicyOptions"]


def test_2_asked_for_by_name_it_is_refused():
    topology = captured("knights-landing-cache-mode")
    assert not any(node.distances for node in topology.numa_nodes)
    with pytest.raises(PlanError, match="distances"):
        settings(
            replace(topology, memory_bytes=2**37),
            kubelet={
                "topology_manager_policy": "best-effort",
                "topology_manager_options": {"prefer-closest-numa-nodes": True},
            },
        )


@pytest.mark.parametrize(
    "name", [name for name, file in MACHINES.items() if file.expected()["host"]["memory_bytes"] is None]
)
def test_3_memory_that_is_not_known_is_not_none(name):
    topology = captured(name)
    one = {"reserved": {"cores": 1}}
    chosen = settings(topology, cpus=one, memory=None, kubelet={"memory_manager_policy": "None"})
    config = {**yaml.safe_load(KUBEADM_CONFIG), **chosen}
    report = check(yaml.safe_dump(config), topology=replace(topology, cgroup_version=2), version="1.36.0")
    assert report.starts, report.error


@pytest.mark.parametrize(
    "name", [name for name, file in MACHINES.items() if file.expected()["host"]["cgroup_version"] == 1]
)
def test_4_cgroup_v1_is_refused_while_planning_with_what_helps(name):
    topology = replace(captured(name), swap_bytes=0, memory_bytes=2**37)
    wish = {"cpus": {"reserved": {"cores": 1}}, "kubelet": {"memory_manager_policy": "None"}}
    with pytest.raises(PlanError, match=r"would not start[\s\S]*failCgroupV1"):
        plan_node(topology, load_profile(wish), "1.36.0")


# ---- 5: the CPUs as the kubelet finds them ----


def repeated_core_ids() -> NodeTopology:
    """Return a DGX H100 whose kernel counts core ids from 0 on each half of a NUMA node."""
    snapshot = stored("nvidia-dgx-h100").snapshot()
    return read_topology(Snapshot(files={**snapshot.files, **dict(_halved(snapshot))}, links=snapshot.links))


def _halved(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for path, text in snapshot.files.items():
        if path.endswith("/topology/core_id"):
            yield path, str(int(text) % 28)


def test_5_cores_whose_ids_repeat_are_reserved_as_the_kubelet_counts_them():
    topology = repeated_core_ids()
    plan = plan_node(topology, load_profile({"cpus": {"reserved": {"cores_per_numa_node": 1}}}), "1.36.0")
    assert MachineInfo.from_topology(topology).cpus.cpus_per_core == 4
    assert len(plan.cpus.reserved) == 4 * len(topology.numa_nodes)
    assert "cores-by-id" in {notice.id for notice in plan.notices}


def test_5_admit_wants_multiples_of_what_the_kubelet_takes_for_a_core():
    topology = repeated_core_ids()
    chosen = settings(topology, cpus={"reserved": {"cores_per_numa_node": 1}}, extends="training")
    assert chosen["cpuManagerPolicyOptions"]["full-pcpus-only"] == "true"

    def admitted(cpus: int) -> Admission:
        return Node(topology, {**yaml.safe_load(KUBEADM_CONFIG), **chosen}).admit(pod(cpus))

    assert admitted(4).admitted
    assert (admitted(2).reason, "multiple cpus per core = 4" in (admitted(2).message or "")) == (
        "SMTAlignmentError",
        True,
    )


def test_5_check_warns_of_half_a_core_of_the_kubelets():
    topology = repeated_core_ids()
    first = min(topology.cores, key=lambda core: min(core.cpus)).cpus
    config = {**yaml.safe_load(KUBEADM_CONFIG), "cpuManagerPolicy": "static"}
    config["reservedSystemCPUs"] = ",".join(map(str, sorted(first)))
    report = check(yaml.safe_dump(config), topology=topology, version="1.36.0")
    assert "NF506" in {finding.id for finding in report.findings}


def test_5_a_cpu_in_no_numa_node_is_not_reserved():
    chosen = settings(captured("dell-r630-node0-offline"))
    assert chosen["reservedSystemCPUs"] == "5"


# ---- 6: devices ----


def test_6_gpus_whose_numa_node_is_unknown_are_none_of_a_numa_node():
    chosen = captured("nvidia-dgx-h100")
    unplaced = replace(chosen, gpus=tuple(replace(gpu, numa_node=None) for gpu in chosen.gpus))
    plan = plan_node(unplaced, load_profile("training"), "1.36.0")
    assert "0 of the 8 GPUs" not in " ".join(notice.message for notice in plan.notices)
    assert plan.largest_pods[-1].devices == 8
    assert plan.largest_pods[-1].cpus > 0


def test_6_no_numa_node_beside_mi300x_loses_all_its_cpus():
    topology = mi300x()
    all_of_one = {"reserved": {"cores_per_package": len(topology.cores) // len(topology.packages)}}
    with pytest.raises(PlanError, match=r"would be reserved, (?:but it has \d|so no pod)"):
        settings(topology, cpus=all_of_one)


# ---- 8: what the kubelet does not read ----


def test_8_policy_none_needs_no_split():
    wish = {"memory": {"system_reserved": "4700Mi"}}
    chosen = settings(captured("qemu-memory-tiers"), **wish, kubelet={"memory_manager_policy": "None"})
    assert "reservedMemory" not in chosen


@pytest.mark.parametrize(
    "name",
    [name for name, file in MACHINES.items() if not file.expected()["topology"]["numa_nodes"]],
)
def test_8_huge_pages_of_kernels_without_numa_nodes_are_planned(name):
    topology = captured(name)
    for size in topology.hugepages:
        plan = plan_node(topology, load_profile({"hugepages": [{"size": size, "count": 1}]}))
        assert plan.hugepages == {size: 1}
