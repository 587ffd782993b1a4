"""What pods may ask of CRI-O: allowed where the host can do it, refused where two would set the same."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import dumps, loads
from numaforge.planning.plan import NodePlan
from numaforge.planning.render import render_file
from numaforge.roles.crio.files import CRIO_PATH
from numaforge.roles.crio.plan import ANNOTATIONS, PodTuningPlan, pod_lines, runtime_class
from numaforge.verification.live import probe
from tests.fixtures.crio_hosts import host
from tests.fixtures.machines import kubeadm_kubelet
from tests.fixtures.plans import notices, planned, refusal

ALL = [*ANNOTATIONS]


def plan(topology: NodeTopology, allow: list[str] | None = None, **profile: Any) -> NodePlan:
    return planned(topology, pod_tuning={"allow": ALL if allow is None else allow}, **profile)


def drop_in(chosen: NodePlan) -> dict[str, Any]:
    [file] = [file for file in chosen.files if file.path == CRIO_PATH]
    return tomllib.loads(render_file(chosen, file))["crio"]["runtime"]


@pytest.mark.parametrize(("machine", "allow"), [(host(), []), (host(cpufreq=None), ["governor"])])
def test_nothing_is_written_without_wished_and_supported_tunings(machine, allow):
    chosen = plan(machine, allow)
    assert chosen.pod_tuning == PodTuningPlan()
    assert CRIO_PATH not in [file.path for file in chosen.files]
    with pytest.raises(PlanError, match="lets pods ask for nothing"):
        runtime_class(chosen)


def handler(*allow: str) -> dict[str, Any]:
    return drop_in(plan(host(), [*allow]))["runtimes"]["high-performance"]


def test_handler_inherits_default_runtime_and_allows_requested_annotations():
    annotations = ["cpu-quota.crio.io", "cpu-freq-governor.crio.io"]
    expected = {"inherit_default_runtime": True, "allowed_annotations": annotations}
    assert handler("cpu_quota", "governor") == expected


def test_crun_makes_no_subgroup_when_load_balancing_may_be_disabled():
    assert handler("load_balancing")["default_annotations"] == {"run.oci.systemd.subgroup": ""}


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


ENDPOINT = "--container-runtime-endpoint=/run/k3s/containerd"
OTHER_RUNTIMES = {
    "containerd": (host(kubelet=kubeadm_kubelet()), "the container runtime is containerd"),
    "k3s": (host(kubelet=replace(kubeadm_kubelet(), flags=(ENDPOINT,))), "k3s with its own containerd"),
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


@pytest.mark.parametrize("policy", ["static", "none"])
def test_pods_without_exclusive_cpus_are_noticed(policy):
    chosen = plan(host(), ["cpu_quota"], kubelet={"cpu_manager_policy": policy})
    assert ("pod-tuning-without-own-cpus" in notices(chosen)) is (policy == "none")


SET_TWICE = {
    "irqbalance is reserved": ("interrupts", {"interrupts": {"irqbalance": "reserved"}}),
    "irqbalance is off": ("interrupts", {"interrupts": {"irqbalance": "off"}}),
    "default_affinity is reserved": ("interrupts", {"interrupts": {"default_affinity": "reserved"}}),
    "governor is performance": ("governor", {"tuning": {"governor": "performance"}}),
}


@pytest.mark.parametrize("said", SET_TWICE)
def test_tuning_set_for_pod_and_node_is_refused_with_a_working_remedy(said):
    allowed, profile = SET_TWICE[said]
    message = refusal(host(), pod_tuning={"allow": [allowed]}, **profile)
    assert said in message
    assert f"{allowed} out of pod_tuning.allow" in message
    assert plan(host(), ["cpu_quota"], **profile).pod_tuning.annotations == ("cpu-quota.crio.io",)


def test_pod_interrupt_tuning_allows_settings_that_move_no_interrupts():
    assert plan(host(), ["interrupts"], interrupts={"workqueues": "reserved", "irqbalance": "keep"})


def test_runtime_class_and_pod_lines_follow_the_plan():
    chosen = planned(host(), pod_tuning={"allow": ["c_states", "governor"], "runtime_class": "fast"})
    assert runtime_class(chosen) == {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "fast"},
        "handler": "high-performance",
    }
    annotations = {"cpu-c-states.crio.io": "disable", "cpu-freq-governor.crio.io": "performance"}
    assert pod_lines(chosen.pod_tuning) == {
        "metadata": {"annotations": annotations},
        "spec": {"runtimeClassName": "fast"},
    }
    assert loads(dumps(chosen)) == chosen


@pytest.mark.parametrize(("allow", "asked"), [(["cpu_quota"], True), ([], False)])
def test_verification_checks_crio_start_time_only_with_a_handler(allow, asked):
    assert ("tell_limits crio.service" in probe(plan(host(), allow))) is asked


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        pytest.param({"allow": ["cpu_quota", "cpu_quota"]}, "names cpu_quota twice", id="twice"),
        pytest.param({"allow": ["power"]}, "power", id="unknown"),
        pytest.param({"runtime_class": "High"}, "runtime_class", id="no-name-of-an-object"),
    ],
)
def test_invalid_pod_tuning_is_refused(wish, said):
    assert said in refusal(host(), pod_tuning=wish)
