"""A live kubelet tells its own node what it runs with; the roll-out's login needs nothing of nodes/proxy."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab
from lab.node import Node
from lab.paths import REPOSITORY
from numaforge.rollout.configz import KubeletEndpoint, SilentKubeletError, UnreadableConfigError, read_answer
from tests.lab import rollouts
from tests.lab.rollouts import HEALTHY, QUICK, applied, begin, free, inventory, policy

RBAC = REPOSITORY / "docs" / "rollout-rbac.yaml"
PKI = "/var/lib/kubelet/pki"
DOOR = KubeletEndpoint(
    address="127.0.0.1",
    port=10250,
    kubeconfig="/etc/kubernetes/kubelet.conf",
    rotated=f"{PKI}/kubelet-client-current.pem",
    serving=(f"{PKI}/kubelet-server-current.pem", f"{PKI}/kubelet.crt"),
)


@pytest.fixture
def login(lab: Lab, joined: Node, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig of the documented service account."""
    rollouts.kubectl(lab, "apply", f"--filename={RBAC}")
    token = rollouts.kubectl(lab, "create", "token", "numaforge-rollout", "--namespace=numaforge").strip()
    document = yaml.safe_load(lab.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": token}
    path = tmp_path / "rollout.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    yield path
    rollouts.kubectl(lab, "delete", "--ignore-not-found", f"--filename={RBAC}")


def readable(node: Node) -> bool | None:
    """Say whether the kubelet tells its node what it runs with; None where it does not answer."""
    try:
        told = read_answer(node.run(DOOR.script).splitlines())
    except SilentKubeletError:
        return None
    except UnreadableConfigError:
        return False
    assert told["cpuManagerPolicy"] == policy(node)
    return True


def await_readable(lab: Lab, node: Node, expected: bool, patience_s: float = 240) -> None:
    """Start the kubelet anew, which remembers for minutes who may read, and return when it says so."""
    node.run(f"systemctl restart kubelet; {HEALTHY}")
    deadline = time.monotonic() + patience_s
    while readable(node) is not expected:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    rollouts.kubectl(lab, "wait", "--for=condition=Ready", f"node/{node.name}", "--timeout=240s")


@pytest.mark.long
def test_documented_login_rolls_out_and_node_reads_its_running_config(lab, joined, login, tmp_path):
    await_readable(lab, joined, True)
    run = begin("run", inventory(lab, tmp_path, kubeconfig=str(login), **QUICK), state=tmp_path)
    assert run.end() == 0, (run.events, run.errors())
    assert (policy(joined), applied(joined), free(lab, joined)) == ("static", 1, True)
    assert readable(joined)


@pytest.mark.long
def test_node_without_configz_permission_is_refused_untouched(lab, joined, login, tmp_path):
    rollouts.kubectl(lab, "delete", "clusterrolebinding", "numaforge-configz")
    await_readable(lab, joined, False)
    with pytest.raises(UnreadableConfigError, match=r"subresource\(s\)=\[configz proxy\]"):
        read_answer(joined.run(DOOR.script).splitlines())
    run = begin("run", inventory(lab, tmp_path, kubeconfig=str(login), **QUICK), state=tmp_path)
    assert run.end() == 2, run.events
    said = run.errors()
    assert f"{joined.name}: neither the node nor this login may read" in said
    assert "the kubelet refuses it to its own node (403" in said
    assert "nodes/configz" in said
    assert (policy(joined), applied(joined), free(lab, joined)) == ("none", 0, True)
