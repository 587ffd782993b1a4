"""The units from which pods inherit their limits are one question, whoever sets the limit."""

from dataclasses import replace

import pytest

from numaforge.machine.topology.model import HostProcess, KubeletInstall, NodeTopology, Userland
from numaforge.machine.topology.runtime import may_be_limited
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import kubeadm_kubelet, lab_node

KIND = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
CRIO, K3S = "unix:///var/run/crio/crio.sock", "unix:///run/k3s/containerd/containerd.sock"
PROFILE = load_profile(
    {"name": "t", "host": {"limits": {"nofile": 4096}}, "rdma": {"host": {"memlock": "unlimited"}}}
)


def asking(endpoint: str = "", **fields: object) -> KubeletInstall:
    said = f"containerRuntimeEndpoint: {endpoint}\n" if endpoint else ""
    return replace(kubeadm_kubelet(), **{"config_text": KIND + said, "flags": (), **fields})


def machine(install: KubeletInstall | None, *running: HostProcess) -> NodeTopology:
    return replace(lab_node(), kubelet=install, userland=Userland(processes=running))


UNITS = {
    "containerd-by-default": (machine(asking()), ("containerd.service", "kubelet.service")),
    "cri-o": (machine(asking(CRIO)), ("crio.service", "kubelet.service")),
    "cri-o-of-a-drop-in": (
        machine(asking(drop_ins={"10.conf": f"{KIND}containerRuntimeEndpoint: {CRIO}\n"})),
        ("crio.service", "kubelet.service"),
    ),
    "a-flag-wins": (
        machine(asking(CRIO, flags=("--container-runtime-endpoint=unix:///run/containerd/containerd.sock",))),
        ("containerd.service", "kubelet.service"),
    ),
    "k3s-is-one-unit": (
        machine(asking(K3S, unit="k3s.service"), HostProcess("containerd", "k3s.service")),
        ("k3s.service",),
    ),
    "dockers-containerd-beside-it": (
        machine(asking(CRIO), HostProcess("containerd", "containerd.service")),
        ("crio.service", "kubelet.service"),
    ),
    "no-kubelet-what-runs": (machine(None, HostProcess("crio", "crio.service")), ("crio.service",)),
    "not-a-pods": (machine(None, HostProcess("crio", None, in_pod=True)), ("containerd.service",)),
    "an-image-in-which-nothing-runs": (machine(None), ("containerd.service",)),
}


@pytest.mark.parametrize(("built", "units"), UNITS.values(), ids=UNITS)
def test_limits_and_pinned_memory_apply_to_the_same_units(
    built: NodeTopology, units: tuple[str, ...]
) -> None:
    plan = plan_node(built, PROFILE)
    assert (plan.host.limited_units, plan.rdma.host.memlock_units) == (units, units)
    assert {*units} <= {*may_be_limited(built.kubelet)}
