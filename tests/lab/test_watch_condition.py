"""A node's watch at a real API server, which holds a kubelet's login to its own Node: its condition."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import pki
from lab.kwok import Fleet
from tests.fixtures.watched_folder import WatchedFolder

pytestmark = pytest.mark.lab
OWN, OTHER = "node-000", "node-001"
CONDITION = "numaforge.io/PlanDrift"
POOL = "/sys/nr_hugepages"
ROWS = [("is", "hugepages", "8", "needed", "-", POOL)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: a node without it tells its Node nothing")
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.add_nodes(2)
        yield fleet


@pytest.fixture(params=["a file with both", "data in the kubeconfig"])
def kubeconfig(request: pytest.FixtureRequest, fleet: Fleet, tmp_path: Path) -> Path:
    """A kubelet's login: certificate and key in one file, as kubelets have it, or in the kubeconfig."""
    document = yaml.safe_load(fleet.login(f"system:node:{OWN}", organization="system:nodes").read_text())
    if request.param == "a file with both":
        user = document["users"][0]["user"]
        pair = [base64.b64decode(user.pop(f"client-{name}-data")) for name in ("certificate", "key")]
        pem = tmp_path / "kubelet-client-current.pem"
        pki.write_private(pem, b"".join(pair))
        user.update(dict.fromkeys(("client-certificate", "client-key"), pem.name))
    file = tmp_path / "kubelet.conf"
    pki.write_private(file, yaml.safe_dump(document).encode())
    return file


@pytest.fixture
def node(tmp_path: Path, kubeconfig: Path) -> WatchedFolder:
    node = WatchedFolder(tmp_path)
    node.configure(ROWS, node=OWN, kubeconfig=str(kubeconfig))
    node.write(POOL, "8\n")
    return node


def conditions(fleet: Fleet, name: str = OWN) -> dict[str, dict[str, Any]]:
    found = fleet.control_plane.get(f"/api/v1/nodes/{name}")["status"]["conditions"]
    return {each["type"]: each for each in found}


def test_the_verdict_is_told_when_it_changes_and_others_conditions_stay(
    fleet: Fleet, node: WatchedFolder
) -> None:
    before = {kind: each["status"] for kind, each in conditions(fleet).items() if kind != CONDITION}
    done = node.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "False AsPlanned as planned\n", "")
    told = conditions(fleet)[CONDITION]
    assert (told["status"], told["reason"], told["message"]) == ("False", "AsPlanned", "as planned")

    node.write(POOL, "7\n")
    node.run()
    drifted = conditions(fleet)[CONDITION]
    assert (drifted["status"], drifted["reason"]) == ("True", "Drifted")
    assert drifted["message"] == "not as planned: hugepages"
    assert drifted["lastTransitionTime"] >= told["lastTransitionTime"]
    node.run()
    assert conditions(fleet)[CONDITION] == drifted, "it is told once"

    (node.folder / POOL[1:]).unlink()
    node.run()
    assert conditions(fleet)[CONDITION]["status"] == "Unknown"
    after = {kind: each["status"] for kind, each in conditions(fleet).items() if kind != CONDITION}
    assert after == before
    assert not [*(node.folder / "run/numaforge/watch").glob("login*")], "no key stays"


def test_a_plan_without_a_watch_takes_its_condition_away(fleet: Fleet, node: WatchedFolder) -> None:
    node.run()
    assert CONDITION in conditions(fleet)
    done = node.run("forget", str(node.configuration))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert CONDITION not in conditions(fleet)
    assert not (node.folder / "metrics" / "numaforge.prom").exists()


def test_another_node_s_is_refused_and_that_is_named_once(
    fleet: Fleet, node: WatchedFolder, kubeconfig: Path
) -> None:
    node.configure(ROWS, node=OTHER, kubeconfig=str(kubeconfig))
    done = node.run()
    assert done.returncode == 0
    assert f"the Node {OTHER} is not told: the API server answers 403" in done.stdout
    assert CONDITION not in conditions(fleet, OTHER)
    assert node.run().stdout == ""
    assert node.drift() == {"hugepages": "0"}
