"""Hosts that say they are another Node, over a real sshd: what they cannot say leads elsewhere."""

import pytest

from numaforge import cli
from tests.fixtures.api_server import ApiServer
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import KUBELET_WAIT, PROFILE
from tests.ssh.sandbox import REPOSITORY, Sandbox, pyinfra
from tests.ssh.site_runs import inventory

VICTIM = "n1"


def host_that_says(start_sandbox: StartSandbox, port: int, name: str) -> Sandbox:
    """Start a joined host, whose kubelet is told to register under a name."""
    login = ("--kubeconfig=/etc/kubernetes/kubelet.conf", f"--hostname-override={name}")
    return start_kubelet(start_sandbox(kubeadm_files(port, *login)), port)


@pytest.fixture
def hostile(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A host that says that it is the victim."""
    return host_that_says(start_sandbox, port, VICTIM)


@pytest.fixture
def victim(hostile: Sandbox, api: ApiServer) -> ApiServer:
    """The cluster, in which the victim has the very IDs that the hostile host says of itself."""
    api.add_node(VICTIM)
    own = {
        "machineID": hostile.run("cat /etc/machine-id"),
        "bootID": hostile.run("cat /proc/sys/kernel/random/boot_id"),
        "systemUUID": hostile.run("cat /sys/class/dmi/id/product_uuid 2> /dev/null || true"),
    }
    api.nodes[VICTIM]["status"] |= {
        "nodeInfo": {name: done.stdout.strip() for name, done in own.items()},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }
    return api


def data(node: Sandbox, api: ApiServer, **more: object) -> dict[str, object]:
    rollout = {"kubeconfig": str(api.kubeconfig), "verify": False}
    return {**node.data(), **KUBELET_WAIT, "numaforge_profile": PROFILE, "numaforge_rollout": rollout, **more}


def is_untouched(api: ApiServer, *hosts: Sandbox) -> bool:
    """Say whether the victim is in service as before, and no kubelet was started again."""
    node = api.nodes[VICTIM]
    starts = [host.path("/run/systemctl.log").read_text().count("start kubelet.service") for host in hosts]
    return (node["spec"], node["metadata"]["annotations"], starts) == ({}, {}, [1] * len(hosts))


@pytest.mark.variants(1)
@pytest.mark.parametrize("verb", ["plan", "run"])
def test_rollout_refuses_host_that_claims_another_node(hostile, victim, tmp_path, monkeypatch, capfd, verb):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = str(inventory(tmp_path, {"gpu-66": data(hostile, victim)}))
    deploy = str(REPOSITORY / "deploys/kubelet.py")
    assert cli.run(["rollout", verb, "--deploy", deploy, file]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "only its own claim makes it the node n1: it is reached at 127.0.0.1" in said
    assert "and the node has 10.0.0.1" in said
    assert "numaforge_node='n1'" in said
    assert is_untouched(victim, hostile)


def test_plain_pyinfra_refuses_host_that_claims_another_node(hostile, victim, tmp_path):
    done = pyinfra(tmp_path, {"gpu-66": data(hostile, victim)}, "-y", "deploys/kubelet.py")
    assert done.returncode == 1
    assert "only its own claim makes it the node n1" in " ".join(done.stdout.split())
    assert is_untouched(victim, hostile)


@pytest.mark.long
@pytest.mark.parametrize("pin", [VICTIM, "gpu-66"], ids=["rightly", "as another node"])
def test_plain_pyinfra_refuses_both_hosts_that_claim_one_node(hostile, victim, tmp_path, pin):
    both = {
        "a-good": data(hostile, victim, numaforge_node=VICTIM),
        "gpu-66": data(hostile, victim, numaforge_node=pin),
    }
    done = pyinfra(tmp_path, both, "-y", "deploys/kubelet.py")
    assert done.returncode == 1
    assert " ".join(done.stdout.split()).count("a-good, gpu-66 say that each of them is the node n1") >= 2
    assert is_untouched(victim, hostile)


def test_invalid_node_name_is_refused_at_the_look(start_sandbox, port, api, tmp_path):
    host = host_that_says(start_sandbox, port, "n1/../../secrets")
    api.add_node(VICTIM)
    done = pyinfra(tmp_path, {"gpu-66": data(host, api)}, "-y", "deploys/kubelet.py")
    assert done.returncode == 1
    assert "is not the name of a Node" in done.stdout
    assert is_untouched(api, host)
