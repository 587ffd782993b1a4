"""What pods may ask of CRI-O: allowed where the host can do it, refused where two would set the same."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_file
from numaforge.roles.crio.files import CRIO_PATH
from numaforge.roles.crio.plan import ANNOTATIONS, PodTuningPlan, pod_lines, runtime_class
from numaforge.verification.live import probe
from tests.fixtures.crio_hosts import host
from tests.fixtures.machines import kubeadm_kubelet

ALL = [*ANNOTATIONS]


def plan(topology: NodeTopology, allow: list[str] | None = None, **profile: Any) -> NodePlan:
    wish = {"pod_tuning": {"allow": ALL if allow is None else allow}, **profile}
    return plan_node(topology, load_profile(wish))


def notices(chosen: NodePlan) -> dict[str, str]:
    return {notice.id: notice.message for notice in chosen.notices}


def drop_in(chosen: NodePlan) -> dict[str, Any]:
    [file] = [file for file in chosen.files if file.path == CRIO_PATH]
    return tomllib.loads(render_file(chosen, file))["crio"]["runtime"]


def test_empty_profile_writes_nothing():
    chosen = plan(host(), [])
    assert chosen.pod_tuning == PodTuningPlan()
    assert CRIO_PATH not in [file.path for file in chosen.files]


def test_handler_inherits_default_runtime_and_allows_requested_annotations():
    assert drop_in(plan(host(), ["cpu_quota", "governor"])) == {
        "runtimes": {
            "high-performance": {
                "inherit_default_runtime": True,
                "allowed_annotations": ["cpu-quota.crio.io", "cpu-freq-governor.crio.io"],
            }
        }
    }


def test_crun_makes_no_subgroup_when_load_balancing_may_be_disabled():
    handler = drop_in(plan(host(), ["load_balancing"]))["runtimes"]["high-performance"]
    assert handler["default_annotations"] == {"run.oci.systemd.subgroup": ""}


@pytest.mark.parametrize(
    ("manager", "allow", "file"),
    [
        pytest.param("apt", ["interrupts"], "/etc/default/irqbalance", id="debian-has-it-elsewhere"),
        pytest.param("dnf", ["interrupts"], None, id="as-crio-expects-it"),
        pytest.param("apt", ["cpu_quota"], None, id="no-word-of-it-without-interrupts"),
    ],
)
def test_irqbalance_config_file_is_set_for_crio_on_debian(manager, allow, file):
    assert drop_in(plan(host(manager=manager), allow)).get("irqbalance_config_file") == file


OTHER_RUNTIMES = {
    "containerd": (host(kubelet=kubeadm_kubelet()), "the container runtime is containerd"),
    "k3s": (
        host(kubelet=replace(kubeadm_kubelet(), flags=("--container-runtime-endpoint=/run/k3s/containerd",))),
        "k3s with its own containerd",
    ),
    "too-old": (host("1.31.5"), "CRI-O 1.31 has no inherit_default_runtime"),
}


@pytest.mark.parametrize(("machine", "said"), OTHER_RUNTIMES.values(), ids=OTHER_RUNTIMES)
def test_runtime_without_annotations_gets_no_pod_tuning_and_a_notice(machine, said):
    chosen = plan(machine)
    assert chosen.pod_tuning == PodTuningPlan()
    assert said in notices(chosen)["no-pod-tuning"]


@pytest.mark.parametrize("version", [None, "1.32.0", "1.36.3-1.1"])
def test_unknown_or_recent_crio_version_is_accepted(version):
    assert len(plan(host(version)).pod_tuning.annotations) == len(ALL)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        pytest.param({"cpufreq": None}, "governor", id="no-governors"),
        pytest.param({"idle_states": ()}, "c_states", id="no-sleep-states"),
    ],
)
def test_annotation_the_kernel_cannot_serve_is_left_out_with_a_notice(changes, missing):
    chosen = plan(host(**changes))
    assert {*chosen.pod_tuning.annotations} == {*ANNOTATIONS.values()} - {ANNOTATIONS[missing]}
    assert notices(chosen)["no-such-pod-tuning"].endswith(f"pods may not ask for {missing}")


def test_nothing_is_written_without_supported_tunings():
    chosen = plan(host(cpufreq=None), ["governor"])
    assert chosen.pod_tuning == PodTuningPlan()


@pytest.mark.parametrize("policy", ["static", "none"])
def test_pods_without_exclusive_cpus_are_noticed(policy):
    chosen = plan(host(), ["cpu_quota"], kubelet={"cpu_manager_policy": policy})
    assert ("pod-tuning-without-own-cpus" in notices(chosen)) is (policy == "none")


SET_TWICE = {
    "irqbalance": (
        ["interrupts"],
        {"interrupts": {"irqbalance": "reserved"}},
        "interrupts.irqbalance is reserved",
    ),
    "irqbalance-that-is-off-and-would-run-once": (
        ["interrupts"],
        {"interrupts": {"irqbalance": "off"}},
        "interrupts.irqbalance is off",
    ),
    "default-affinity": (
        ["interrupts"],
        {"interrupts": {"default_affinity": "reserved"}},
        "interrupts.default_affinity is reserved",
    ),
    "governor": (["governor"], {"tuning": {"governor": "performance"}}, "tuning.governor is performance"),
}


@pytest.mark.parametrize(("allow", "profile", "said"), SET_TWICE.values(), ids=SET_TWICE)
def test_tuning_set_for_pod_and_node_is_refused_with_a_working_remedy(allow, profile, said):
    with pytest.raises(PlanError, match=said) as refusal:
        plan(host(), allow, **profile)
    assert f"{allow[0]} out of pod_tuning.allow" in str(refusal.value.remedy)
    assert plan(host(), ["cpu_quota"], **profile).pod_tuning.annotations == ("cpu-quota.crio.io",)


def test_pod_interrupt_tuning_allows_settings_that_move_no_interrupts():
    assert plan(host(), ["interrupts"], interrupts={"workqueues": "reserved", "irqbalance": "keep"})


def test_runtime_class_and_pod_lines_follow_the_plan():
    chosen = plan(
        host(),
        ["c_states", "governor"],
        pod_tuning={"allow": ["c_states", "governor"], "runtime_class": "fast"},
    )
    assert runtime_class(chosen) == {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "fast"},
        "handler": "high-performance",
    }
    assert pod_lines(chosen.pod_tuning) == {
        "metadata": {
            "annotations": {"cpu-c-states.crio.io": "disable", "cpu-freq-governor.crio.io": "performance"}
        },
        "spec": {"runtimeClassName": "fast"},
    }


def test_plan_without_pod_tuning_has_no_runtime_class():
    with pytest.raises(PlanError, match="lets pods ask for nothing"):
        runtime_class(plan(host(), []))


@pytest.mark.parametrize(("allow", "asked"), [(["cpu_quota"], True), ([], False)])
def test_verification_checks_crio_start_time_only_with_a_handler(allow, asked):
    assert ("tell_limits crio.service" in probe(plan(host(), allow))) is asked


def test_plan_survives_its_document():
    chosen = plan(host())
    assert loads(dumps(chosen)) == chosen


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        pytest.param({"allow": ["cpu_quota", "cpu_quota"]}, "names cpu_quota twice", id="twice"),
        pytest.param({"allow": ["power"]}, "power", id="unknown"),
        pytest.param({"runtime_class": "High"}, "runtime_class", id="no-name-of-an-object"),
    ],
)
def test_invalid_pod_tuning_is_refused(wish, said):
    with pytest.raises(Exception, match=said):
        load_profile({"pod_tuning": wish})
