"""What an independent reading once found wrong, each on the machine that shows it.

| number | what was wrong | held by |
|---|---|---|
| 1 | many NUMA nodes: the kubelet walks 2^n sets | `test_1_*`; test_hint_work.py, test_kubelet_plan.py |
| 2 | prefer-closest-numa-nodes without distances | `test_2_*` |
| 3 | unknown MemTotal taken for 0 | tests/unit/planning/test_startup_plan.py |
| 4 | a plan stands that `check` refuses (cgroup v1) | test_startup_plan.py; test_plans.py asks `check` |
| 5 | the kubelet's CPUs are not those of the masks | `test_5_*`; tests/unit/planning/test_kubelet_view.py |
| 6 | GPUs whose NUMA node is unknown; MI300X | `test_6_*` |
| 7 | system tasks on pods' cores | test_kubelet_plan.py, `STRICTNESS`; the page docs/reserved.md |
| 8 | a split that policy None does not read | `test_8_*` |
| 8 | huge pages without NUMA nodes | test_hugepages_plan.py; tests/ssh/test_site.py |
| 9 | remedies that do not work | tests/unit/planning/test_remedies.py |
"""

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
from numaforge.lib.errors import PlanError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile, ready_profiles
from tests.fixtures.machines import KUBEADM_CONFIG, grace_blackwell_tray, many_numa_nodes, mi300x
from tests.machines.files import stored

SECONDS = 20.0  # for an answer that took none in a hundred


def captured(name: str) -> NodeTopology:
    return read_topology(stored(name).snapshot())


def settings(topology: NodeTopology, **wish: Any) -> dict[str, Any]:
    prepared = replace(topology, swap_bytes=0, cgroup_version=2)
    plan = plan_node(prepared, load_profile(wish), "1.36.0")
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
def test_1_admit_and_fit_explain_a_kubelet_hang_at_once(topology, more):
    config = static(topology, **more)
    started = time.monotonic()
    with pytest.raises(KubeletHangError, match=r"would walk every set of 3[24] NUMA nodes"):
        Node(topology, config).admit(pod(4, 1))
    report = fit(Scenario(topology, config, None), Pod.from_manifest(pod(4, 1), "p"))
    assert "would walk every set" in (report.configured.error or "")
    assert time.monotonic() - started < SECONDS


# ---- 2, 3, 4: no plan that its own judge refuses ----


def test_2_prefer_closest_is_omitted_without_numa_distances():
    topology = many_numa_nodes(2)
    blind = replace(topology, numa_nodes=tuple(replace(node, distances={}) for node in topology.numa_nodes))
    aligned = {"topology_manager_policy": "best-effort", "memory_manager_policy": "None"}
    for name in ready_profiles():
        chosen = settings(blind, extends=name, kubelet=aligned).get("topologyManagerPolicyOptions", {})
        assert "prefer-closest-numa-nodes" not in chosen, name
    near = captured("epyc-9654-nps4")
    assert "prefer-closest-numa-nodes" in settings(near, kubelet=aligned)["topologyManagerPolicyOptions"]


def test_2_explicit_prefer_closest_without_distances_is_refused():
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


# ---- 5: the CPUs as the kubelet finds them ----


def repeated_core_ids() -> NodeTopology:
    """Return a DGX H100 whose kernel counts core ids from 0 on each half of a NUMA node."""
    snapshot = stored("nvidia-dgx-h100").snapshot()
    return read_topology(Snapshot(files={**snapshot.files, **dict(_halved(snapshot))}, links=snapshot.links))


def _halved(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for path, text in snapshot.files.items():
        if path.endswith("/topology/core_id"):
            yield path, str(int(text) % 28)


def test_5_cores_with_repeated_ids_are_reserved_by_the_kubelet_count():
    topology = repeated_core_ids()
    plan = plan_node(topology, load_profile({"cpus": {"reserved": {"cores_per_numa_node": 1}}}), "1.36.0")
    assert MachineInfo.from_topology(topology).cpus.cpus_per_core == 4
    assert len(plan.cpus.reserved) == 4 * len(topology.numa_nodes)
    assert "cores-by-id" in {notice.id for notice in plan.notices}


def test_5_admit_requires_multiples_of_the_kubelets_core_size():
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


# ---- 6: devices ----


def test_6_gpus_with_unknown_numa_node_belong_to_no_numa_node():
    chosen = captured("nvidia-dgx-h100")
    unplaced = replace(chosen, gpus=tuple(replace(gpu, numa_node=None) for gpu in chosen.gpus))
    plan = plan_node(unplaced, load_profile("training"), "1.36.0")
    assert "0 of the 8 GPUs" not in " ".join(notice.message for notice in plan.notices)
    assert plan.largest_pods[-1].devices == 8
    assert plan.largest_pods[-1].cpus > 0


def test_6_mi300x_plan_cannot_reserve_a_whole_numa_node():
    topology = mi300x()
    all_of_one = {"reserved": {"cores_per_package": len(topology.cores) // len(topology.packages)}}
    with pytest.raises(PlanError, match=r"would be reserved, (?:but it has \d|so no pod)"):
        settings(topology, cpus=all_of_one)


# ---- 8: what the kubelet does not read ----


def test_8_memory_policy_none_needs_no_reserved_memory():
    wish = {"memory": {"system_reserved": "4700Mi"}}
    chosen = settings(captured("qemu-memory-tiers"), **wish, kubelet={"memory_manager_policy": "None"})
    assert "reservedMemory" not in chosen
