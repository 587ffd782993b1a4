"""A node asks its own kubelet what it runs with, of a TLS server in the place of the kubelet."""

import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from lab import pki
from numaforge.rollout.configz import KubeletEndpoint, SilentKubeletError, UnreadableConfigError, read_answer
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, free_port

PKI = "/var/lib/kubelet/pki"
CURRENT = f"{PKI}/kubelet-client-current.pem"
KUBECONFIG = "/etc/kubernetes/kubelet.conf"
CONFIG = {"cpuManagerPolicy": "static"}


@dataclass
class Kubelet:
    """What the stand-in serves with, and who has asked it for what."""

    port: int
    serving: str
    status: int = 200
    no_http: bytes = b""
    """What it sends in place of an answer."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def endpoint(self) -> KubeletEndpoint:
        return KubeletEndpoint("127.0.0.1", self.port, KUBECONFIG, CURRENT, (f"{PKI}/kubelet.crt",))


@pytest.fixture(scope="module")
def authority() -> pki.KeyPair:
    return pki.authority()


@pytest.fixture
def kubelet(authority: pki.KeyPair, tmp_path: Path) -> Iterator[Kubelet]:
    serving = pki.issue(authority, "node", names=("node",))
    serving.write(tmp_path, "serving")
    authority.write(tmp_path, "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "serving.crt", tmp_path / "serving.key")
    context.load_verify_locations(tmp_path / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            subject = self.connection.getpeercert().get("subject", ())
            said = {name: value for part in subject for name, value in part}
            kubelet.asked.append((self.path, said))
            if kubelet.no_http:
                self.wfile.write(kubelet.no_http)
                return
            text = json.dumps({"kubeletconfig": CONFIG}) if kubelet.status == 200 else "Forbidden\n"
            self.send_response(kubelet.status if said else 401)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        kubelet = Kubelet(server.server_port, serving.certificate_pem.decode())
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield kubelet
        server.shutdown()


@pytest.fixture
def node(start_sandbox: StartSandbox, authority: pki.KeyPair, kubelet: Kubelet) -> Sandbox:
    """A node as kubeadm leaves it."""
    login = pki.issue(authority, "system:node:node", organization="system:nodes")
    kubeconfig = pki.kubeconfig("https://10.0.0.1:6443", authority, "system:node:node", CURRENT)
    return start_sandbox(
        {
            **machine(),
            CURRENT: (login.certificate_pem + login.key_pem).decode(),
            f"{PKI}/kubelet.crt": kubelet.serving,
            KUBECONFIG: kubeconfig.decode(),
        }
    )


def ask(node: Sandbox, endpoint: KubeletEndpoint, shell: str = "sh -s") -> dict[str, Any]:
    done = node.run(endpoint.script, shell, own_network=False)
    assert done.returncode == 0, done.stderr
    return dict(read_answer(done.stdout.splitlines()))


@pytest.mark.parametrize("shell", ["dash -s", "bash -s"])
def test_kubelet_serves_its_config_to_its_node(node, kubelet, shell):
    assert ask(node, kubelet.endpoint, shell) == CONFIG
    [(path, login)] = kubelet.asked
    assert path == "/configz"
    assert login == {"organizationName": "system:nodes", "commonName": "system:node:node"}


@cases(
    "replaced",
    {
        "relative-path": (CURRENT, "../../var/lib/kubelet/pki/kubelet-client-current.pem"),
        "in-quotes": (f"client-certificate: {CURRENT}", f'"client-certificate": "{CURRENT}"'),
        "nothing-named-but-rotated": ("client-certificate:", "token: x\n    comment:"),
    },
)
def test_client_certificate_is_read_from_the_kubeconfig(node, kubelet, replaced):
    file = node.path(KUBECONFIG)
    changed = file.read_text().replace(*replaced)
    assert changed != file.read_text()
    file.write_text(changed)
    assert ask(node, kubelet.endpoint) == CONFIG


def test_forbidden_configz_differs_from_silent_kubelet(node, kubelet):
    kubelet.status = 403
    with pytest.raises(UnreadableConfigError, match=r"refuses it to its own node \(403: Forbidden"):
        ask(node, kubelet.endpoint)
    kubelet.status = 500
    with pytest.raises(SilentKubeletError, match="500"):
        ask(node, kubelet.endpoint)
    closed = KubeletEndpoint("127.0.0.1", free_port(), KUBECONFIG, CURRENT, (f"{PKI}/kubelet.crt",))
    with pytest.raises(SilentKubeletError, match="refused"):
        ask(node, closed)


def test_server_of_another_protocol_counts_as_silent(node, kubelet):
    kubelet.no_http = b"220 mail ready\r\n"
    with pytest.raises(SilentKubeletError, match=r"220 mail ready.*is not an HTTP answer"):
        ask(node, kubelet.endpoint)


def test_server_with_another_certificate_receives_no_request(node, kubelet, authority):
    other = pki.issue(authority, "node", names=("node",))
    node.path(f"{PKI}/kubelet.crt").write_bytes(other.certificate_pem)
    with pytest.raises(UnreadableConfigError, match="another certificate than the kubelet"):
        ask(node, kubelet.endpoint)
    assert kubelet.asked == []


@cases(
    "hidden, said",
    {
        "no-client-certificate": (f"rm {CURRENT}", "cannot be read: .*No such file"),
        "no-kubeconfig": (f"rm {KUBECONFIG}", "cannot be read: .*No such file"),
        "no-python": ("PATH=/nowhere", "no python3"),
    },
)
def test_missing_login_file_or_python_is_named(node, kubelet, hidden, said):
    done = node.run(f"{hidden}\n{kubelet.endpoint.script}", own_network=False)
    with pytest.raises(UnreadableConfigError, match=said):
        read_answer(done.stdout.splitlines())
    assert kubelet.asked == []
