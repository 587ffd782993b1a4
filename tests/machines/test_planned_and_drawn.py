"""Machines whose GPUs or NUMA nodes are unusual: planned for a ready profile, judged by `check`, drawn."""

from dataclasses import replace

import pytest
import yaml

from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.report.layout import lay_out
from tests.fixtures.boxes import misplaced, of_kind, overflowing
from tests.fixtures.machines import KUBEADM_CONFIG

PROFILES = [
    # machine, its ready profile, topology policy, NUMA nodes in boxes of their own, NUMA nodes in one box
    pytest.param("mi300x", "mi300x", "best-effort", 2, 0, id="8-MI300X-in-SPX"),
    pytest.param("mi300x", "mi300x-cpx", "single-numa-node", 2, 0, id="8-MI300X-that-get-CPX"),
    pytest.param("mi300x-cpx", "mi300x-cpx", "single-numa-node", 2, 0, id="8-MI300X-in-CPX"),
    pytest.param("mi210", "training", "best-effort", 2, 0, id="8-MI210"),
    pytest.param("gh200", "gb200", "best-effort", 2, 7, id="GH200"),
    pytest.param("quad-gh200", "gb200", "best-effort", 8, 28, id="four-GH200"),
    pytest.param("gb200", "gb200", "best-effort", 6, 28, id="GB200"),
    pytest.param("gb200-cdmm", "gb200", "best-effort", 2, 32, id="GB200-with-CDMM"),
    pytest.param("gb300", "gb200", "best-effort", 6, 28, id="GB300"),
    pytest.param("dgx-spark", "training", "best-effort", 1, 0, id="GB10"),
    pytest.param("epyc-gpu", "training", "best-effort", 8, 0, id="EPYC-in-NPS4"),
    pytest.param("epyc-l3-gpu", "cpu-only", None, 24, 0, id="EPYC-with-L3-as-NUMA"),
]
every_machine = pytest.mark.parametrize(("name", "profile", "policy", "boxes", "folded"), PROFILES)


@every_machine
def test_ready_profile_plans_the_machine_and_the_kubelet_starts(name, profile, policy, boxes, folded):
    topology = replace(ready_machine(name), swap_bytes=0, cgroup_version=2)
    plan = plan_node(topology, load_profile(profile), f"1.{LATEST_MINOR}.0")
    assert "another-machine" not in {notice.id for notice in plan.notices}
    assert plan.kubelet.settings.get("topologyManagerPolicy", "none") == (policy or "none")
    settings = yaml.safe_load(KUBEADM_CONFIG) | plan.kubelet.settings
    judged = check(yaml.safe_dump(settings), topology=topology, version=plan.kubelet.version)
    assert judged.starts, judged.error


@every_machine
def test_plan_drawing_folds_empty_numa_nodes_into_one_box(name, profile, policy, boxes, folded):
    topology = ready_machine(name)
    drawn = lay_out(topology, plan_node(topology, load_profile(profile), f"1.{LATEST_MINOR}.0")).root
    assert (misplaced(drawn), overflowing(drawn)) == ([], [])
    shown = [box.data["numa-node"] for box in of_kind(drawn, "numa-node")]
    assert len([ids for ids in shown if ids.isdigit()]) == boxes
    assert bool([ids for ids in shown if not ids.isdigit()]) == bool(folded)
    assert boxes + folded == len(topology.numa_nodes)
