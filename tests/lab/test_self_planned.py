"""A kubelet's own login at a real API server, which holds it to its own Node: how a node says how it is.

At its first boot, and as long as its watch runs.
"""

import base64
import json
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import pki
from lab.kwok import Fleet
from numaforge.image.first_boot.kubelet_login import KubeletLogin, kubelet_login
from numaforge.image.first_boot.report import report
from numaforge.image.first_boot.trial import await_renewal
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.rollout.cluster import ForbiddenError
from numaforge.rollout.kubectl import KubectlCluster
from numaforge.rollout.self_planned import ANNOTATION, CONDITION, UNVERIFIED, release_verified, self_planned
from tests.fixtures.watched_folder import WatchedFolder

pytestmark = pytest.mark.lab
OWN, OTHER = "node-000", "node-001"
PEM = "kubelet-client-current.pem"
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


def of_a_kubelet(fleet: Fleet, folder: Path, pem: str) -> Path:
    """Write a kubelet's login: certificate and key in one file, as kubelets have it, or in the kubeconfig.

    `pem` is what the kubeconfig calls that file; empty is none.
    """
    document = yaml.safe_load(fleet.login(f"system:node:{OWN}", organization="system:nodes").read_text())
    if pem:
        user = document["users"][0]["user"]
        pair = [base64.b64decode(user.pop(f"client-{name}-data")) for name in ("certificate", "key")]
        pki.write_private(folder / pem, b"".join(pair))
        user.update(dict.fromkeys(("client-certificate", "client-key"), pem))
    file = folder / "kubelet.conf"
    pki.write_private(file, yaml.safe_dump(document).encode())
    return file


@pytest.fixture(scope="module")
def kubeconfig(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kubelet")
    return of_a_kubelet(fleet, folder, str(folder / PEM))


@pytest.fixture
def login(kubeconfig: Path) -> KubeletLogin:
    return kubelet_login(kubeconfig)


def conditions(login: KubeletLogin, name: str) -> dict[str, str]:
    return {each["type"]: each["status"] for each in login.node(name)["status"]["conditions"]}


def test_kubelet_login_annotates_its_own_node_and_adds_a_condition(login):
    before = conditions(login, OWN)
    login.annotate(OWN, {ANNOTATION: "{}"})
    login.set_condition(OWN, AS_PLANNED)
    assert login.node(OWN)["metadata"]["annotations"][ANNOTATION] == "{}"
    assert conditions(login, OWN) == {**before, CONDITION: "True"}
    login.set_condition(OWN, {**AS_PLANNED, "status": "False"})
    assert conditions(login, OWN) == {**before, CONDITION: "False"}


def test_kubelet_login_cannot_annotate_another_node(login):
    with pytest.raises(HostUnreachableError, match="403"):
        login.annotate(OTHER, {ANNOTATION: "{}"})


def test_renewed_node_lease_proves_that_the_api_server_is_reached(login):
    before = login.renewed_at(OWN)
    await_renewal(login, OWN, time.monotonic() + 120)
    assert login.renewed_at(OWN) != before


def test_unrenewed_node_lease_counts_as_unreachable_api_server(fleet):
    login = kubelet_login(fleet.login("system:node:absent", organization="system:nodes"))
    with pytest.raises(HostUnreachableError, match="does not renew its Node's lease"):
        await_renewal(login, "absent", time.monotonic())


def test_node_login_cannot_read_another_nodes_lease(login):
    with pytest.raises(HostUnreachableError, match="403"):
        await_renewal(login, OTHER, time.monotonic())


def test_kubelet_login_cannot_remove_its_taint_but_a_rollout_login_can(fleet, login, kubeconfig):
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


def test_missing_plan_is_reported_on_the_node(fleet):
    name = socket.gethostname().lower()
    fleet.add_node(name)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    fleet.patch(f"/api/v1/nodes/{name}/status", {"status": {"nodeInfo": {"bootID": boot_id}}})
    said: list[str] = []
    told = report(said.append, fleet.login(f"system:node:{name}", organization="system:nodes"))
    assert told is not None
    assert not told.verified
    assert "promises are not kept: local: has no /etc/numaforge/plan.json" in told.says
    assert said
    with KubectlCluster(fleet.kubeconfig, kubectl=str(fleet.control_plane.kubectl())) as cluster:
        assert self_planned(cluster.node(name)) == told


UNUSABLE = {
    "no server": (["clusters", 0, "cluster", "server"], "http://127.0.0.1:1", "is not an https address"),
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
def test_unusable_login_is_reported_with_its_fault(fault, kubeconfig, tmp_path):
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


def test_exec_credential_program_supplies_the_login(fleet, kubeconfig, tmp_path):
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


# ---- the watch of a node ----

DRIFT = "numaforge.io/PlanDrift"
POOL = "/sys/nr_hugepages"
ROWS = [("is", "hugepages", "8", "needed", "-", POOL)]


@pytest.fixture(params=[PEM, ""], ids=["a file with both", "data in the kubeconfig"])
def watchs_login(request: pytest.FixtureRequest, fleet: Fleet, tmp_path: Path) -> Path:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: a node without it tells its Node nothing")
    return of_a_kubelet(fleet, tmp_path, request.param)


@pytest.fixture
def node(tmp_path: Path, watchs_login: Path) -> WatchedFolder:
    node = WatchedFolder(tmp_path)
    node.configure(ROWS, node=OWN, kubeconfig=str(watchs_login))
    node.write(POOL, "8\n")
    return node


def told(fleet: Fleet, name: str = OWN) -> dict[str, dict[str, Any]]:
    """Return the conditions of a node."""
    found = fleet.get(f"/api/v1/nodes/{name}")["status"]["conditions"]
    return {each["type"]: each for each in found}


def test_changed_verdict_is_reported_and_other_conditions_stay(fleet, node):
    before = {kind: each["status"] for kind, each in told(fleet).items() if kind != DRIFT}
    done = node.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "False AsPlanned as planned\n", "")
    first = told(fleet)[DRIFT]
    assert (first["status"], first["reason"], first["message"]) == ("False", "AsPlanned", "as planned")

    node.write(POOL, "7\n")
    node.run()
    drifted = told(fleet)[DRIFT]
    assert (drifted["status"], drifted["reason"]) == ("True", "Drifted")
    assert drifted["message"] == "not as planned: hugepages"
    assert drifted["lastTransitionTime"] >= first["lastTransitionTime"]
    node.run()
    assert told(fleet)[DRIFT] == drifted, "it is told once"

    (node.folder / POOL[1:]).unlink()
    node.run()
    assert told(fleet)[DRIFT]["status"] == "Unknown"
    after = {kind: each["status"] for kind, each in told(fleet).items() if kind != DRIFT}
    assert after == before
    assert not [*(node.folder / "run/numaforge/watch").glob("login*")], "no key stays"


def test_plan_without_a_watch_removes_the_drift_condition(fleet, node):
    node.run()
    assert DRIFT in told(fleet)
    done = node.run("forget", str(node.configuration))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert DRIFT not in told(fleet)
    assert not (node.folder / "metrics" / "numaforge.prom").exists()


def test_report_on_another_node_is_refused_and_reported_once(fleet, node, watchs_login):
    node.configure(ROWS, node=OTHER, kubeconfig=str(watchs_login))
    done = node.run()
    assert done.returncode == 0
    assert f"the Node {OTHER} is not told: the API server answers 403" in done.stdout
    assert DRIFT not in told(fleet, OTHER)
    assert node.run().stdout == ""
    assert node.drift() == {"hugepages": "0"}


# ---- nobody answers: kwok asks an API server that was away again only after a while ----


def test_unreachable_api_server_is_reported(fleet, login):
    fleet.control_plane.stop_api_server()
    try:
        with pytest.raises(HostUnreachableError, match="does not answer"):
            login.node(OWN)
    finally:
        fleet.control_plane.start_api_server()
