"""No plan leaves under which `numaforge kubelet check` says that the kubelet does not start."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.kubelet.startup.check import check
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import KUBEADM_CONFIG, dgx_h100, kubeadm_kubelet, lab_node


def node(text: str = "", **kubelet: Any) -> NodeTopology:
    install = replace(kubeadm_kubelet(), config_text=KUBEADM_CONFIG + text, **kubelet)
    return replace(lab_node(), kubelet=install)


# What is on the host already, the kubelet's version, and what the refusal says: where, what, and the way out.
REFUSED: dict[str, tuple[NodeTopology, str, tuple[str, str, str]]] = {
    "swap": (
        replace(lab_node(), swap_bytes=2**30),
        "1.36.3",
        ("tuning.swap", "running with swap on", "set tuning.swap: off"),
    ),
    "cgroup-v1": (
        replace(lab_node(), cgroup_version=1),
        "1.36.3",
        ("kernel.cmdline", "cgroup v1", "systemd.unified_cgroup_hierarchy=1"),
    ),
    "the-admins-own-mistake": (node("maxPods: -1\n"), "1.36.3", ("maxPods", "negative", "set maxPods to 0")),
    "an-argument-after-two-dashes": (
        node(flags=(*kubeadm_kubelet().flags, "--")),
        "1.36.3",
        ("--config-dir", "cannot parse its command line", "remove the flag"),
    ),
    "a-gate-that-another-version-lacks": (
        node("featureGates:\n  NoSuchGate: true\n"),
        "1.31.0",
        ("NoSuchGate", "", ""),
    ),
}


@pytest.mark.parametrize(("machine", "version", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_plan_with_which_the_kubelet_fails_to_start_is_refused(machine, version, said):
    with pytest.raises(PlanError) as refused:
        plan_node(machine, load_profile({}), version)
    where, message, remedy = said
    assert refused.value.where is not None
    assert where in f"{refused.value.where} {refused.value.message}"
    assert message in refused.value.message
    assert remedy in (refused.value.remedy or "")


def test_cgroup_v1_is_accepted_for_a_kubelet_that_supports_v1():
    assert plan_node(replace(lab_node(), cgroup_version=1), load_profile({}), "1.34.0").kubelet


def test_unread_kubelet_configuration_is_not_judged():
    install = replace(kubeadm_kubelet(), config_text=None)
    path = install.config_file or ""
    unread = replace(lab_node(), kubelet=install, unreadable=(path,), swap_bytes=2**30)
    assert "kubelet-config-unread" in {notice.id for notice in plan_node(unread, load_profile({})).notices}


def test_startup_warning_becomes_a_notice():
    noticed = plan_node(node("maxPodz: 110\n"), load_profile({})).notices
    assert any("maxPodz" in notice.message for notice in noticed), noticed


def test_unknown_memory_does_not_count_as_none():
    unknown = replace(dgx_h100(), memory_bytes=None, numa_nodes=())
    config = KUBEADM_CONFIG + "kubeReserved:\n  memory: 1Gi\n"
    assert check(config, topology=unknown, version="1.36.3").starts
