"""The ready profiles for kinds of machines: each suits its machines, and a plan for another one says so."""

from dataclasses import replace

import pytest

from docs.machine_profiles import PAGE
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import machine_profiles, ready_profiles
from tests.fixtures.machines import dgx_h100, epyc_nps4, hgx_b200, lab_node, laptop, mi300x
from tests.fixtures.planned_kubelets import report
from tests.fixtures.plans import notices, planned
from tests.fixtures.profile_machines import EXAMPLES, hgx_h200

TEXT = PAGE.read_text(encoding="utf-8")
GPU_MACHINES = ("dgx-h100", "hgx-b200", "gb200", "mi300x")


def plan(topology: NodeTopology, profile: str) -> NodePlan:
    return planned(topology, f"1.{LATEST_MINOR}.0", extends=profile)


def examples(*profiles: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("profile", "build"),
        [
            pytest.param(profile, build, id=f"{profile}-{name}")
            for profile in profiles
            for name, build in EXAMPLES[profile].items()
        ],
    )


def test_every_profile_has_a_machine_and_a_row_on_the_page():
    assert sorted(EXAMPLES) == [*machine_profiles()]
    assert not {*machine_profiles()} & {*ready_profiles()}
    table = TEXT.partition("## Which one")[2].partition("## ")[0]
    assert [name for name in machine_profiles() if f"| `{name}` |" not in table] == []


@examples(*EXAMPLES)
def test_profile_fits_its_own_machines(profile, build):
    assert "another-machine" not in notices(plan(build(), profile))


ANY = (lab_node, dgx_h100, epyc_nps4, mi300x, hgx_h200)


@pytest.mark.parametrize("profile", machine_profiles())
def test_kubelet_starts_on_any_machine(profile):
    for build in (*EXAMPLES[profile].values(), *ANY):
        topology = build()
        judged = report(topology, plan(topology, profile))
        assert judged.starts, judged.error


@examples(*GPU_MACHINES)
def test_pod_with_all_gpus_is_admitted(profile, build):
    topology = build()
    planned = plan(topology, profile)
    largest = planned.largest_pods[-1]
    assert largest.devices == len(topology.gpus)
    assert largest.cpus == planned.allocatable.cpu_millis // 1000
    assert "whole-node-pod-refused" not in notices(planned)


@examples("epyc-nps1", "epyc-nps4", "xeon-snc")
def test_pod_without_gpus_fills_the_numa_nodes_allowed_by_policy(profile, build):
    topology = build()
    planned = plan(topology, profile)
    policy = planned.kubelet.settings["topologyManagerPolicy"]
    free = [len(node.cpus - planned.cpus.reserved) for node in topology.numa_nodes]
    assert planned.largest_pods[-1].cpus == (max(free) if policy == "single-numa-node" else sum(free))


def another(topology: NodeTopology, profile: str) -> str:
    return notices(plan(topology, profile)).get("another-machine", "")


OTHERS = {
    "other-gpus": (hgx_b200, "dgx-h100", "GPUs 10de:2901 instead of 10de:20b0, 10de:20b2"),
    "gpus-of-another-maker": (mi300x, "dgx-h100", "GPUs 1002:74a1 instead of"),
    "no-gpus": (epyc_nps4, "hgx-b200", "GPUs none instead of 10de:2901"),
    "gpus-where-there-should-be-none": (dgx_h100, "epyc-nps1", "GPUs 10de:2330 instead of none"),
    "one-l3": (dgx_h100, "epyc-nps1", "one L3 cache in a NUMA node instead of several"),
    "several-l3": (epyc_nps4, "xeon-snc", "several L3 caches in a NUMA node instead of one"),
    "more-numa-nodes": (epyc_nps4, "epyc-nps1", "4 NUMA nodes with CPUs in a package instead of 1 or 2"),
    "a-laptop": (laptop, "xeon-snc", "NUMA nodes with CPUs in a package instead of 2 or 4"),
}


@pytest.mark.parametrize(("build", "profile", "difference"), OTHERS.values(), ids=OTHERS.keys())
def test_other_machine_kind_is_reported_with_its_differences(build, profile, difference):
    message = another(build(), profile)
    assert message.startswith(f"{profile}, adjusted was made for another kind of machine: ")
    assert difference in message


def test_single_unexpected_gpu_is_named():
    dgx = dgx_h100()
    mixed = replace(dgx, gpus=(replace(dgx.gpus[0], device="2901"), *dgx.gpus[1:]))
    assert "GPUs 10de:2901 instead of" in another(mixed, "dgx-h100")


def test_vendor_id_matches_all_gpus_of_that_vendor():
    made_for = {"gpus": ["10de"]}
    assert "another-machine" not in notices(planned(dgx_h100(), made_for=made_for))
    assert "another-machine" in notices(planned(mi300x(), made_for=made_for))


def test_unknown_hardware_details_are_not_a_mismatch():
    epyc = epyc_nps4()
    first, *others = epyc.cores
    unknown = replace(epyc, cores=(replace(first, numa_node=None), *others), l3_caches=())
    made_for = {"gpus": [], "numa_nodes_per_package": [1], "l3_per_numa_node": "one"}
    assert "another-machine" not in notices(planned(unknown, made_for=made_for))


def test_null_made_for_cancels_the_inherited_check():
    said = notices(planned(hgx_b200(), extends="dgx-h100", made_for=None))
    assert "another-machine" not in said
