"""No plan leaves under which `numaforge kubelet check` says that the kubelet does not start."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.kubelet.startup.check import check
from numaforge.machine.topology.model import NodeTopology
from tests.fixtures.machines import KUBEADM_CONFIG, dgx_h100, kubeadm_kubelet, lab_node
from tests.fixtures.plans import notices, planned, refusal


def node(text: str = "", **kubelet: Any) -> NodeTopology:
    install = replace(kubeadm_kubelet(), config_text=KUBEADM_CONFIG + text, **kubelet)
    return replace(lab_node(), kubelet=install)


CGROUP_V1 = replace(lab_node(), cgroup_version=1)
REFUSED = {
    "cgroup-v1": (CGROUP_V1, "1.36.3", ("kernel.cmdline", "cgroup v1", "systemd.unified_cgroup_hierarchy=1")),
    "the-admins-own-mistake": (node("maxPods: -1\n"), "1.36.3", ("maxPods", "negative", "set maxPods to 0")),
    "an-argument-after-two-dashes": (
        node(flags=(*kubeadm_kubelet().flags, "--")),
        "1.36.3",
        ("--config-dir", "cannot parse its command line", "remove the flag"),
    ),
    "a-gate-that-another-version-lacks": (
        node("featureGates:\n  NoSuchGate: true\n"),
        "1.31.0",
        ("NoSuchGate",),
    ),
}


@pytest.mark.parametrize(("machine", "version", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_plan_with_which_the_kubelet_fails_to_start_is_refused(machine, version, said):
    message = refusal(machine, version)
    assert [words for words in said if words not in message] == []


def test_cgroup_v1_is_accepted_for_a_kubelet_that_supports_v1():
    assert planned(CGROUP_V1, "1.34.0").kubelet


def test_unread_kubelet_configuration_is_not_judged():
    install = replace(kubeadm_kubelet(), config_text=None)
    unread = replace(lab_node(), kubelet=install, unreadable=(install.config_file,), swap_bytes=2**30)
    assert "kubelet-config-unread" in notices(planned(unread))


def test_startup_warning_becomes_a_notice():
    said = notices(planned(node("maxPodz: 110\n")))
    assert any("maxPodz" in message for message in said.values()), said


def test_unknown_memory_does_not_count_as_none():
    unknown = replace(dgx_h100(), memory_bytes=None, numa_nodes=())
    config = KUBEADM_CONFIG + "kubeReserved:\n  memory: 1Gi\n"
    assert check(config, topology=unknown, version="1.36.3").starts
