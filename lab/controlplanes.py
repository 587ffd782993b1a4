"""A control plane of three machines, without the machines: API servers, each with its own member of etcd.

The API refuses loopback addresses as those of a Service's endpoints. So the API servers advertise addresses
for documentation (RFC 5737), and users of the kubeconfig reach them through a proxy, which dials the loopback
address that belongs to each.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import shutil
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from lab import gobuild, pki
from lab.api import Api
from lab.controlplane import FIRST_SERVICE_ADDRESS, SERVICE_RANGE
from lab.errors import LabError
from lab.kwok import ALLOCATABLE, MANAGED, NODE_INFO, ZONE
from lab.paths import LAB
from lab.ports import LOOPBACK, Reserved, reserve, started_on_free_ports
from lab.process import Daemon, end_living
from lab.waiting import wait_until
from numaforge.rollout.names import LEASE_NAMESPACE

ROLE = "node-role.kubernetes.io/control-plane"
ADDRESSES = {"cp-1": "192.0.2.11", "cp-2": "192.0.2.12", "cp-3": "192.0.2.13"}
"""The address of each control-plane node."""
KEEPS = "cp-3"
"""Whose API server kwok and the tests ask directly."""
START_SECONDS = 240.0


class _Proxy(socketserver.ThreadingTCPServer):
    """An HTTP CONNECT proxy from the advertised to the loopback addresses."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, leads_to: dict[str, str]) -> None:
        self.leads_to = leads_to
        super().__init__((LOOPBACK, 0), _Tunnel)


class _Tunnel(socketserver.StreamRequestHandler):
    server: _Proxy

    def handle(self) -> None:
        target = self.rfile.readline().decode("latin-1").split(" ")[1]
        while self.rfile.readline().strip():
            continue
        address, _, port = target.rpartition(":")
        try:
            there = socket.create_connection((self.server.leads_to[address], int(port)), timeout=10)
        except (OSError, KeyError):
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        with there:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with contextlib.suppress(OSError):  # either end may end it
                self._pump(there)

    def _pump(self, there: socket.socket) -> None:
        other = {self.connection: there, there: self.connection}
        while True:
            for ready in select.select([*other], [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    return
                other[ready].sendall(data)


class _Members:
    """The API that `lab.api.Api` asks: that of one API server, as its administrator."""

    def __init__(self, address: str, port: int, certificates: Path) -> None:
        self._address, self._port, self._certificates = address, port, certificates

    def connection(self, timeout_s: float | None = 10) -> http.client.HTTPSConnection:
        """Return a connection to it."""
        context = ssl.create_default_context(cafile=str(self._certificates / "ca.crt"))
        context.load_cert_chain(self._certificates / "admin.crt", self._certificates / "admin.key")
        return http.client.HTTPSConnection(self._address, self._port, context=context, timeout=timeout_s)


class ControlPlanes(Api):
    """Three API servers with a member of etcd each, and their nodes, which kwok plays; a context manager."""

    def __init__(self, state: Path) -> None:
        self.state = state.absolute()
        self._certificates = self.state / "pki"
        self._reserved: Reserved | None = None
        self._proxy: _Proxy | None = None
        self._loopback: dict[str, str] = {}
        self._port = 0

    def __enter__(self) -> Self:
        """Start everything, and return when each API server is ready and each node too."""
        started_on_free_ports(self._start, self.stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for the first API server."""
        return self.state / "kubeconfig"

    def stop(self) -> None:
        """End everything, and let others have the ports."""
        if self._proxy is not None:
            self._proxy.shutdown()
            self._proxy.server_close()
            self._proxy = None
        end_living(self.state)
        shutil.rmtree(self.state / "run", ignore_errors=True)
        if self._reserved is not None:
            self._reserved.release()

    def start_etcd(self, name: str) -> None:
        """Start the member of etcd on a node, with the data that it had."""
        peers = {each: f"http://{address}:{self._ports[1]}" for each, address in self._loopback.items()}
        clients = self._etcd(name)
        self._daemon("etcd", name).start(
            [
                str(gobuild.build(gobuild.ETCD) / "etcd"),
                *(f"--name={name}", f"--data-dir={self.state / 'etcd' / name}", "--unsafe-no-fsync"),
                *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
                *(f"--listen-peer-urls={peers[name]}", f"--initial-advertise-peer-urls={peers[name]}"),
                "--initial-cluster=" + ",".join(f"{each}={url}" for each, url in peers.items()),
                *("--initial-cluster-state=new", "--log-level=warn"),
                *("--heartbeat-interval=500", "--election-timeout=2500"),  # a busy machine is no dead leader
            ]
        )

    def stop_etcd(self, name: str) -> None:
        """End the member of etcd on a node, as a power cut would."""
        self._daemon("etcd", name).stop(grace_s=0)

    def start_api_server(self, name: str) -> None:
        """Start the API server on a node."""
        files = {kind: self._certificates / kind for kind in ("ca.crt", "apiserver.crt", "apiserver.key")}
        accounts = self._certificates / "service-accounts.key"
        self._daemon("kube-apiserver", name).start(
            [
                str(gobuild.build(gobuild.KUBERNETES) / "kube-apiserver"),
                *(f"--etcd-servers={self._etcd(name)}", f"--bind-address={self._loopback[name]}"),
                *(f"--secure-port={self._port}", f"--advertise-address={ADDRESSES[name]}"),
                "--authorization-mode=Node,RBAC",
                *(f"--client-ca-file={files['ca.crt']}", f"--tls-cert-file={files['apiserver.crt']}"),
                f"--tls-private-key-file={files['apiserver.key']}",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                *(f"--service-account-key-file={accounts}", f"--service-account-signing-key-file={accounts}"),
                f"--service-cluster-ip-range={SERVICE_RANGE}",
            ]
        )

    def stop_api_server(self, name: str) -> None:
        """End the API server on a node; the others notice when its place in the Service expires."""
        self._daemon("kube-apiserver", name).stop(grace_s=0)

    def start_all(self) -> None:
        """Start what was stopped, and return when each API server is ready."""
        for name in ADDRESSES:
            if self._daemon("etcd", name).pid() is None:
                self.start_etcd(name)
            if self._daemon("kube-apiserver", name).pid() is None:
                self.start_api_server(name)
        self.wait_until(self._all_ready, "has an API server that is not ready")

    def login(self, user: str) -> Path:
        """Write the kubeconfig of a user without rights of their own."""
        return self._write_kubeconfig(user, self.state / f"{user}.kubeconfig")

    def wait_until(
        self, holds: Callable[[], bool], otherwise: str, patience_s: float = START_SECONDS
    ) -> None:
        """Return when something holds; raise LabError when it does not in time."""
        wait_until(lambda: self._holds(holds), otherwise, patience_s, where=str(self.state))

    def is_ready(self, name: str) -> bool:
        """Say whether the API server of a node is ready, as it says itself."""
        connection = self._directly(name).connection(5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def kubectl(self) -> Path:
        """Return the path of kubectl."""
        return gobuild.build(gobuild.KUBERNETES) / "kubectl"

    def _start(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)
        self.state.mkdir(parents=True)
        self._reserved = reserve(lambda found: len(found.ports) >= 3)
        self._port, *self._ports = self._reserved.ports[:3]
        self._loopback = {
            name: f"{self._reserved.network}.{number}" for number, name in enumerate(ADDRESSES, start=101)
        }
        self._proxy = _Proxy({ADDRESSES[name]: address for name, address in self._loopback.items()})
        threading.Thread(target=self._proxy.serve_forever, args=(0.05,), daemon=True).start()
        self._issue()
        super().__init__(self._directly(KEEPS))  # type: ignore[arg-type]
        for name in ADDRESSES:
            self.start_etcd(name)
        for name in ADDRESSES:
            self.start_api_server(name)
        self.wait_until(self._all_ready, "has an API server that is not ready")
        self._register_nodes()

    def _issue(self) -> None:
        """Write certificates and kubeconfigs."""
        self._certificates.mkdir(mode=0o700)
        self._ca = pki.authority()
        self._ca.write(self._certificates, "ca")
        names = ("kubernetes", "kubernetes.default", "localhost", FIRST_SERVICE_ADDRESS)
        addresses = (*ADDRESSES.values(), *self._loopback.values())
        pki.issue(self._ca, "kube-apiserver", names=(*names, *addresses)).write(
            self._certificates, "apiserver"
        )
        pki.issue(self._ca, "service-accounts").write(self._certificates, "service-accounts")
        admin = pki.issue(self._ca, "kubernetes-admin", organization="system:masters")
        admin.write(self._certificates, "admin")
        self._write_kubeconfig("kubernetes-admin", self.kubeconfig, admin)
        direct = f"https://{self._loopback[KEEPS]}:{self._port}"
        pki.write_private(self.state / "kwok.kubeconfig", pki.kubeconfig(direct, self._ca, "admin", admin))

    def _write_kubeconfig(self, user: str, path: Path, credentials: pki.KeyPair | None = None) -> Path:
        if self._proxy is None:
            raise LabError("does not run", where=str(self.state))
        server = f"https://{ADDRESSES['cp-1']}:{self._port}"
        issued = credentials or pki.issue(self._ca, user)
        document = yaml.safe_load(pki.kubeconfig(server, self._ca, user, issued))
        document["clusters"][0]["cluster"]["proxy-url"] = f"http://{LOOPBACK}:{self._proxy.server_address[1]}"
        pki.write_private(path, yaml.safe_dump(document).encode())
        return path

    def _register_nodes(self) -> None:
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": LEASE_NAMESPACE}})
        for name in ADDRESSES:
            status = {"allocatable": ALLOCATABLE, "capacity": ALLOCATABLE, "nodeInfo": NODE_INFO}
            labels = {"kubernetes.io/hostname": name, MANAGED: "fake", ZONE: name, ROLE: ""}
            self.send(
                "POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status}
            )
        Daemon("kwok", self.state).start(
            [
                str(gobuild.build(gobuild.KWOK) / "kwok"),
                f"--kubeconfig={self.state / 'kwok.kubeconfig'}",
                f"--config={LAB / 'kwok-stages.yaml'}",
                f"--manage-nodes-with-label-selector={MANAGED}",
                "--node-lease-duration-seconds=4",  # a roll-out waits for a node's next one, a second here
                "--v=WARN",
            ],
            environment={"HOME": str(self.state), "PATH": os.environ["PATH"]},
        )
        self.wait_until(lambda: all(map(self._is_node_ready, ADDRESSES)), "has a node that is not Ready")
        for name, address in ADDRESSES.items():
            addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
            self.patch(f"/api/v1/nodes/{name}/status", {"status": {"addresses": addresses}})

    def _is_node_ready(self, name: str) -> bool:
        conditions = self.get(f"/api/v1/nodes/{name}")["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _all_ready(self) -> bool:
        for name in ADDRESSES:
            self._daemon("etcd", name).require_alive()
            self._daemon("kube-apiserver", name).require_alive()
        return all(map(self.is_ready, ADDRESSES))

    @staticmethod
    def _holds(holds: Callable[[], bool]) -> bool:
        try:
            return holds()
        except LabError as failure:
            if "has ended" in str(failure):
                raise
            return False  # the API is briefly unavailable

    def _directly(self, name: str) -> _Members:
        return _Members(self._loopback[name], self._port, self._certificates)

    def _etcd(self, name: str) -> str:
        return f"http://{self._loopback[name]}:{self._ports[0]}"

    def _daemon(self, program: str, name: str) -> Daemon:
        return Daemon(f"{program}-{name}", self.state)
