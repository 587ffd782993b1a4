"""Containers that outlive the real kubelet: nothing disturbs them undrained, whatever its unit says."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from tests.fixtures.tables import cases
from tests.lab import rollouts
from tests.lab.rollouts import QUICK, inventory

BOOTS: dict[str, Any] = {
    **rollouts.PROFILE,
    "kernel": {"cmdline": ["skew_tick=1"]},
    "maintenance": {"reboot": "allowed"},
}
CONTAINERS = "cd /proc; grep -ls kubepods [0-9]*/cgroup || :"
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
LOGIN = "/etc/kubernetes/kubelet.conf"
K3S_LOGIN = "/var/lib/rancher/k3s/agent/kubelet.kubeconfig"


@pytest.fixture
def containers(lab: Lab, joined: Node) -> list[str]:
    """The processes of pods on the joined node, one of them of a Deployment."""
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    return joined.run(CONTAINERS).split()


def site(lab: Lab, folder: Path, profile: dict[str, Any]) -> str:
    """Return what a run of site.py says that has to fail."""
    file = inventory(lab, folder, profile=profile, **QUICK)
    done = rollouts.program(
        "pyinfra", "-y", str(file), "deploys/site.py", PYINFRA_PROGRESS="off", COLUMNS="1000"
    )
    assert done.returncode == 1, done.stdout
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


def assert_untouched(node: Node, containers: list[str], boot: str) -> None:
    assert {*containers} <= {*node.run(CONTAINERS).split()}
    assert node.run(BOOT_ID) == boot
    assert node.run("ls -d /etc/numaforge /var/lib/numaforge/txn/*/run.sh 2> /dev/null || :") == ""
    assert "numaforge.test" not in node.run("cat /boot/grub/grub.cfg /etc/default/grub.d/* 2> /dev/null || :")


@pytest.mark.long
def test_node_with_a_stopped_kubelet_is_not_rebooted_under_its_pods(lab, joined, containers, tmp_path):
    boot = joined.run(BOOT_ID)
    joined.run("systemctl stop kubelet")  # the cluster calls it Ready for a while
    assert "no kubelet runs on it (its unit is inactive)" in site(lab, tmp_path / "plain", BOOTS)
    assert_untouched(joined, containers, boot)
    node = json.loads(rollouts.kubectl(lab, "get", "node", joined.name, "-o", "json"))
    assert not node["spec"].get("unschedulable")
    file = inventory(lab, tmp_path, profile=BOOTS, **QUICK)
    there = rollouts.begin("run", file, state=tmp_path, deploy="deploys/site.py")
    assert there.end() == 3, (there.events, there.errors())
    assert_untouched(joined, containers, boot)


@pytest.mark.long
@cases("profile", {"a-reboot": BOOTS, "a-state-file-goes": rollouts.PROFILE})
def test_pods_on_a_host_outside_any_cluster_are_named_and_left_alone(
    lab, joined, containers, tmp_path, profile
):
    boot = joined.run(BOOT_ID)
    joined.run(
        "set -e; mkdir -p /etc/systemd/system/kubelet.service.d; "
        "cat > /etc/systemd/system/kubelet.service.d/50-standalone.conf; systemctl daemon-reload; "
        f"systemctl stop kubelet; rm {LOGIN}",
        input_text="[Service]\nEnvironment=KUBELET_KUBECONFIG_ARGS=\n",
    )
    said = site(lab, tmp_path, profile)
    assert "pods run on a host that is not a known Node of a cluster: process " in said
    assert_untouched(joined, containers, boot)


@pytest.mark.long
def test_k3s_kubelet_is_refused_by_name_whether_running_or_stopped(lab, joined, containers, tmp_path):
    """The real kubelet under the name, the unit and the data directory of k3s' agent."""
    boot = joined.run(BOOT_ID)
    pid = joined.run("systemctl show -p MainPID --value kubelet").strip()
    program, *flags = joined.run(f"tr '\\0' '\\n' < /proc/{pid}/cmdline").splitlines()
    flags = [flag.replace(LOGIN, K3S_LOGIN) for flag in flags if "bootstrap" not in flag]
    command = shlex.join(["/usr/local/bin/k3s-agent", *flags])
    joined.run(
        "set -e; systemctl disable --now kubelet; rm -rf /etc/systemd/system/kubelet.service* "
        "/usr/lib/systemd/system/kubelet.service*; "
        f"mkdir -p {Path(K3S_LOGIN).parent}; mv {LOGIN} {K3S_LOGIN}; cp {program} /usr/local/bin/k3s-agent; "
        "cat > /etc/systemd/system/k3s-agent.service; systemctl daemon-reload; systemctl start k3s-agent; "
        + rollouts.HEALTHY,
        input_text=f"[Service]\nExecStart={command}\nKillMode=process\nDelegate=yes\n",
    )
    for down in (False, True):
        if down:
            joined.run("systemctl stop k3s-agent")
        said = site(lab, tmp_path, BOOTS)
        assert "nothing was changed, k3s runs this host's kubelet" in said
        assert "what disturbs pods is not changed here: kernel_cmdline, reboot" in said
        assert_untouched(joined, containers, boot)
