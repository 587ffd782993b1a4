"""Devices of the plan that another tool sets: its pod runs on the node, and the Node has its label."""

import json
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.device_owners import MIG_MANAGER
from numaforge.roles.watch.configuration import configuration
from tests.fixtures.control_groups import GROUPS, Start, starting
from tests.fixtures.tables import cases, tables
from tests.fixtures.watched_folder import WatchedFolder

CASES = tables(__file__)

pytestmark = pytest.mark.skipif(
    GROUPS is None or os.geteuid() != 0 or not all(map(shutil.which, ("curl", "openssl"))),
    reason="needs control groups, curl and openssl",
)
POD = "/kubepods/burstable/pod1/1f"
LABEL = MIG_MANAGER.label
ROW = f"owner\towner:mig\t{LABEL}\t{MIG_MANAGER.process}\n"


@dataclass
class Api:
    """An API server that has one Node; `asked` are the requests."""

    kubeconfig: str
    labels: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answers: bool = True


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    made += ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(f"GET {self.path}")
            odd = json.dumps({LABEL: "in an annotation"})
            metadata = {"labels": server.labels, "annotations": {"applied": odd}}
            self._answer({"kind": "Node", "metadata": metadata})

        def do_PATCH(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            server.asked.append(f"PATCH {self.path}")
            self._answer({"kind": "Node"})

        def _answer(self, document: dict[str, Any]) -> None:
            text = json.dumps(document, separators=(",", ":")).encode() if server.answers else b"no"
            self.send_response(200 if server.answers else 503)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    kubeconfig = tmp_path / "kubelet.conf"
    kubeconfig.write_text(
        f"server: https://127.0.0.1:{http.server_port}\ncertificate-authority: {certificate}\ntoken: secret\n"
    )
    kubeconfig.chmod(0o600)
    server = Api(str(kubeconfig))
    yield server
    http.shutdown()
    http.server_close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as begin:
        yield begin


@pytest.fixture
def node(tmp_path: Path, api: Api) -> WatchedFolder:
    watched = WatchedFolder(tmp_path)
    watched.configure([], kubeconfig=api.kubeconfig)
    with watched.configuration.open("a") as file:
        file.write(ROW)
    return watched


def owner(node: WatchedFolder) -> str:
    done = node.run()
    assert (done.returncode, done.stderr) == (0, "")
    return node.drift()["owner:mig"]


def test_label_set_by_a_manager_is_drift_while_label_and_pod_exist(node, api, start):
    start(POD, "nvidia-mig-manager")
    api.labels = {LABEL: "all-disabled"}
    assert owner(node) == "1"
    assert (
        f"the label {LABEL} of the Node has another tool set it"
        in (node.folder / "run/numaforge/watch/verdict").read_text()
    )
    api.labels = {LABEL: ""}
    assert owner(node) == "0"
    api.labels = {}
    assert owner(node) == "0"
    assert api.asked.count("GET /api/v1/nodes/node-1?pretty=false") == 3


@cases(
    "group, name",
    {
        "no-such-process": (POD, "sleep"),
        "a-users-process-of-that-name": ("/user.slice/a.scope", "nvidia-mig-manager"),
    },
)
def test_node_is_not_queried_without_the_managers_pod(node, api, start, group, name):
    start(group, name)
    api.labels = {LABEL: "all-disabled"}
    assert owner(node) == "0"
    assert not [each for each in api.asked if each.startswith("GET")]


def test_unanswered_node_query_is_unknown(node, api, start):
    start(POD, "nvidia-mig-manager")
    api.answers = False
    assert owner(node) == "NaN"
    assert not [*(node.folder / "run/numaforge/watch").glob("login*")], "no key stays"


@cases("machine, profile, rows", CASES["owners"])
def test_node_checks_for_other_owners_of_its_planned_settings(machine, profile, rows):
    wish = load_profile({"name": "a", "watch": {"enabled": True, "condition": True}, **profile})
    text = configuration(plan_node(ready_machine(machine), wish, "1.36.2"), "f", {})
    assert [line.removeprefix("owner\t") for line in text.splitlines() if line.startswith("owner\t")] == rows
