"""A kubelet's own login at a real API server, which holds it to its own Node: how a node says how it is."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import pki
from lab.kwok import Fleet
from numaforge.errors import HostError, HostUnreachableError
from numaforge.first_boot.kubelet_login import KubeletLogin, kubelet_login
from numaforge.first_boot.report import report
from numaforge.rollout.cluster import ForbiddenError
from numaforge.rollout.kubectl import KubectlCluster
from numaforge.rollout.self_planned import ANNOTATION, CONDITION, UNVERIFIED, release_verified, self_planned

pytestmark = pytest.mark.lab
OWN, OTHER = "node-000", "node-001"
TAINT = {"spec": {"taints": [{"key": UNVERIFIED, "effect": "NoSchedule"}]}}
AS_PLANNED = {
    "type": CONDITION,
    "status": "True",
    "reason": "AsPlanned",
    "message": "as planned by profile training",
    "lastHeartbeatTime": "2026-11-26T01:00:00Z",
    "lastTransitionTime": "2026-11-26T01:00:00Z",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.add_nodes(2)
        yield fleet


@pytest.fixture(scope="module")
def kubeconfig(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The login of a kubelet: its certificate and key in one file, as kubelets have it."""
    folder = tmp_path_factory.mktemp("kubelet")
    document = yaml.safe_load(fleet.login(f"system:node:{OWN}", organization="system:nodes").read_text())
    user = document["users"][0]["user"]
    pair = [base64.b64decode(user.pop(f"client-{name}-data")) for name in ("certificate", "key")]
    pem = folder / "kubelet-client-current.pem"
    pki.write_private(pem, b"".join(pair))
    user.update(dict.fromkeys(("client-certificate", "client-key"), str(pem)))
    file = folder / "kubelet.conf"
    pki.write_private(file, yaml.safe_dump(document).encode())
    return file


@pytest.fixture
def login(kubeconfig: Path) -> KubeletLogin:
    return kubelet_login(kubeconfig)


def conditions(login: KubeletLogin, name: str) -> dict[str, str]:
    return {each["type"]: each["status"] for each in login.node(name)["status"]["conditions"]}


def test_a_kubelets_login_annotates_its_own_node_and_adds_a_condition(login: KubeletLogin) -> None:
    before = conditions(login, OWN)
    login.annotate(OWN, {ANNOTATION: "{}"})
    login.set_condition(OWN, AS_PLANNED)
    assert login.node(OWN)["metadata"]["annotations"][ANNOTATION] == "{}"
    assert conditions(login, OWN) == {**before, CONDITION: "True"}
    login.set_condition(OWN, {**AS_PLANNED, "status": "False"})
    assert conditions(login, OWN) == {**before, CONDITION: "False"}


def test_it_may_not_speak_for_another_node(login: KubeletLogin) -> None:
    with pytest.raises(HostUnreachableError, match="403"):
        login.annotate(OTHER, {ANNOTATION: "{}"})


def test_it_may_not_lift_its_own_taint_which_a_roll_outs_login_does(
    fleet: Fleet, login: KubeletLogin, kubeconfig: Path
) -> None:
    fleet.patch(f"/api/v1/nodes/{OWN}", TAINT)
    kubectl = str(fleet.control_plane.kubectl())
    with KubectlCluster(kubeconfig, kubectl=kubectl) as own:
        node = own.node(OWN)
        with pytest.raises(ForbiddenError, match="taints"):
            own.lift_taint(node, UNVERIFIED)
    told = {
        **dict.fromkeys(("profile", "named_by", "plan", "version", "says", "checked_at"), ""),
        "boot_id": login.node(OWN)["status"]["nodeInfo"]["bootID"],
        "verified": True,
    }
    login.annotate(OWN, {ANNOTATION: json.dumps(told)})
    with KubectlCluster(fleet.kubeconfig, kubectl=kubectl) as cluster:
        assert release_verified(cluster) == ([OWN], {})
        assert cluster.node(OWN).taints == ()


def test_a_machine_that_has_no_plan_says_so_on_its_node(fleet: Fleet) -> None:
    name = socket.gethostname().lower()
    fleet.add_node(name)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    fleet.patch(f"/api/v1/nodes/{name}/status", {"status": {"nodeInfo": {"bootID": boot_id}}})
    said: list[str] = []
    told = report(said.append, fleet.login(f"system:node:{name}", organization="system:nodes"))
    assert told is not None
    assert not told.verified
    assert "promises are not kept: has no /etc/numaforge/plan.json" in told.says
    assert said
    with KubectlCluster(fleet.kubeconfig, kubectl=str(fleet.control_plane.kubectl())) as cluster:
        assert self_planned(cluster.node(name)) == told


UNUSABLE = {
    "no server": (["clusters", 0, "cluster", "server"], "http://127.0.0.1:1", "is no https address"),
    "an authority that is none": (
        ["clusters", 0, "cluster", "certificate-authority-data"],
        "bm9uZQ==",
        "cannot be used",
    ),
    "a certificate that is not there": (
        ["users", 0, "user", "client-certificate"],
        "/nonexistent",
        "cannot be used",
    ),
    "a context that there is not": (["current-context"], "nowhere", "contexts has no 'nowhere'"),
}


@pytest.mark.parametrize("fault", UNUSABLE)
def test_a_login_that_cannot_be_used_is_named(fault: str, kubeconfig: Path, tmp_path: Path) -> None:
    (*path, last), value, why = UNUSABLE[fault]
    document = yaml.safe_load(kubeconfig.read_text())
    place = document
    for key in path:
        place = place[key]
    place[last] = value
    file = tmp_path / "kubelet.conf"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(HostError, match=why):
        kubelet_login(file)


def test_a_program_that_gives_a_token_is_asked_for_it(fleet: Fleet, kubeconfig: Path, tmp_path: Path) -> None:
    document = yaml.safe_load(kubeconfig.read_text())
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    user = document["users"][0]["user"]
    pem = (kubeconfig.parent / user["client-certificate"]).read_text()
    status = {"clientCertificateData": pem, "clientKeyData": pem}
    document["users"][0]["user"] = {
        "exec": {
            "apiVersion": credential["apiVersion"],
            "command": "cat",
            "args": [str(tmp_path / "credential.json")],
        }
    }
    (tmp_path / "credential.json").write_text(json.dumps({**credential, "status": status}))
    file = tmp_path / "kubelet.conf"
    file.write_text(yaml.safe_dump(document))
    assert kubelet_login(file).node(OWN)["metadata"]["name"] == OWN
    (tmp_path / "credential.json").write_text("no credential")
    with pytest.raises(HostUnreachableError, match="cat gives no credential"):
        kubelet_login(file)


def test_an_api_server_that_is_away_is_said_to_be(fleet: Fleet, login: KubeletLogin) -> None:
    fleet.control_plane.stop_api_server()
    try:
        with pytest.raises(HostUnreachableError, match="does not answer"):
            login.node(OWN)
    finally:
        fleet.control_plane.start_api_server()
