"""The Kubernetes control plane, as ordinary processes on this machine's loopback interface."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import egress, gobuild, pki
from lab.errors import LabError
from lab.interrupts import heed
from lab.node import HOST_SEEN_FROM_NODE, Node
from lab.paths import LAB
from lab.ports import LOOPBACK
from lab.process import Daemon
from lab.requirements import command
from numaforge.rollout.names import LEASE_NAMESPACE

SERVICE_RANGE = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"
PROGRAMS = ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "egress", "etcd")
"""In the order in which they end: the API server before its store."""
NODE_NETWORK = "192.0.2"
"""Addresses for documentation (RFC 5737), which node names resolve to in the API server and nowhere else."""
PORT_NAMES = ("apiserver", "etcd", "etcd_peers", "controller_manager", "scheduler")


@dataclass(frozen=True)
class ControlPlane:
    """etcd, API server, controller manager and scheduler of one state directory, on their ports."""

    state: Path
    ports: Mapping[str, int]
    gates: tuple[str, ...] = ()
    """Feature gates that are on, beside those that are by default."""
    served: tuple[str, ...] = ()
    """API versions that are served, beside those that are by default, such as `scheduling.k8s.io/v1beta1`."""

    @property
    def _certificates(self) -> Path:
        return self.state / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "kubeconfig"

    @property
    def _etcd_data(self) -> Path:
        return self.state / "etcd"

    @property
    def _saved_etcd_data(self) -> Path:
        return self.state / "etcd.ready"

    def create(self, ca: pki.KeyPair, nodes: Iterable[Node]) -> None:
        """Write certificates, kubeconfigs, and what leads the API server to the nodes' kubelets."""
        self._certificates.mkdir(mode=0o700)
        ca.write(self._certificates, "ca")
        names = (
            *(LOOPBACK, HOST_SEEN_FROM_NODE, FIRST_SERVICE_ADDRESS, "localhost", "kubernetes"),
            *("kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
        )
        pki.issue(ca, "kube-apiserver", names=names).write(self._certificates, "apiserver")
        pki.issue(ca, "service-accounts").write(self._certificates, "service-accounts")
        kubelet_client = pki.issue(ca, "kube-apiserver-kubelet-client", organization="system:masters")
        kubelet_client.write(self._certificates, "kubelet-client")
        admin = pki.issue(ca, "kubernetes-admin", organization="system:masters")
        admin.write(self._certificates, "admin")
        server = f"https://{LOOPBACK}:{self.ports['apiserver']}"
        pki.write_private(self.kubeconfig, pki.kubeconfig(server, ca, "kubernetes-admin", admin))
        for user in ("kube-controller-manager", "kube-scheduler"):
            credentials = pki.issue(ca, f"system:{user}")
            kubeconfig = pki.kubeconfig(server, ca, f"system:{user}", credentials)
            pki.write_private(self._certificates / f"{user}.kubeconfig", kubeconfig)
        addresses = {node.name: node.kubelet_address for node in nodes}
        lines = [f"{NODE_NETWORK}.{number} {name}" for number, name in enumerate(addresses, start=1)]
        (self.state / "hosts").write_text("\n".join([f"{LOOPBACK} localhost", *lines]) + "\n")
        (self.state / egress.ADDRESSES).write_text(json.dumps(addresses))
        (self.state / "egress-selector.json").write_text(json.dumps(egress.configuration()))

    def start(self, *, restore: bool = False) -> None:
        """Start everything and return when the API server is ready; `restore` begins with the saved data."""
        if restore:
            shutil.rmtree(self._etcd_data, ignore_errors=True)
            shutil.copytree(self._saved_etcd_data, self._etcd_data)
        self._start_store()
        self.start_api_server()
        self._create_namespace()
        binaries = gobuild.build(gobuild.KUBERNETES)
        for name, port in (
            ("kube-controller-manager", "controller_manager"),
            ("kube-scheduler", "scheduler"),
        ):
            arguments = [
                str(binaries / name),
                *(f"--kubeconfig={self._certificates / name}.kubeconfig", f"--bind-address={LOOPBACK}"),
                *(f"--secure-port={self.ports[port]}", "--leader-elect=false"),
                *("--kube-api-qps=1000", "--kube-api-burst=1000"),
                *self._gate_flags(),
            ]
            if name == "kube-controller-manager":
                arguments += [
                    f"--service-account-private-key-file={self._certificates / 'service-accounts.key'}",
                    f"--root-ca-file={self._certificates / 'ca.crt'}",
                    f"--cluster-signing-cert-file={self._certificates / 'ca.crt'}",
                    f"--cluster-signing-key-file={self._certificates / 'ca.key'}",
                    "--use-service-account-credentials=true",
                ]
            self._daemon(name).start(arguments)

    def stop(self) -> None:
        """End everything.

        All state is etcd's. The others are given no time to take leave: kube-apiserver would use a minute of
        it waiting for watches to end.
        """
        for name in PROGRAMS:
            self._daemon(name).stop(grace_s=10 if name == "etcd" else 0)

    def stop_api_server(self) -> None:
        """End the API server alone; the other programs keep running."""
        self._daemon("kube-apiserver").stop(grace_s=0)

    def save(self) -> None:
        """Copy the store as it is now; the caller has paused the nodes."""
        self.stop()
        shutil.rmtree(self._saved_etcd_data, ignore_errors=True)
        shutil.copytree(self._etcd_data, self._saved_etcd_data)
        self.start()

    def get(self, path: str) -> Any:
        """Return the API's answer to a GET, parsed when it is JSON."""
        address = f"https://{LOOPBACK}:{self.ports['apiserver']}{path}"
        with urllib.request.urlopen(address, context=self._administrator(), timeout=10) as answer:
            body = answer.read()
        return json.loads(body) if answer.headers.get_content_type() == "application/json" else body.decode()

    def connection(self, timeout_s: float | None = 10) -> http.client.HTTPSConnection:
        """Return a connection to the API server, as its administrator."""
        return http.client.HTTPSConnection(
            LOOPBACK, self.ports["apiserver"], context=self._administrator(), timeout=timeout_s
        )

    def _administrator(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._certificates / "ca.crt"))
        context.load_cert_chain(self._certificates / "admin.crt", self._certificates / "admin.key")
        return context

    def kubectl(self) -> Path:
        """Return the path of kubectl."""
        return gobuild.build(gobuild.KUBERNETES) / "kubectl"

    def running(self) -> bool:
        """Say whether all processes live."""
        return all(self._daemon(name).pid() is not None for name in PROGRAMS)

    def require_alive(self) -> None:
        """Raise with the end of its log when a process has ended."""
        for name in PROGRAMS:
            self._daemon(name).require_alive()

    def _create_namespace(self) -> None:
        """Create the namespace of roll-outs, which may be there."""
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
        connection = self.connection()
        path = "/api/v1/namespaces"
        connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status not in (http.HTTPStatus.CREATED, http.HTTPStatus.CONFLICT):
            raise LabError(f"the namespace {LEASE_NAMESPACE} cannot be created ({answer.status})")

    def _daemon(self, name: str) -> Daemon:
        return Daemon(name, self.state)

    def _gate_flags(self) -> list[str]:
        return [f"--feature-gates={gate}=true" for gate in self.gates]

    def _start_store(self) -> None:
        etcd = f"http://{LOOPBACK}:{self.ports['etcd']}"
        peers = f"http://{LOOPBACK}:{self.ports['etcd_peers']}"
        self._daemon("etcd").start(
            [
                str(gobuild.build(gobuild.ETCD) / "etcd"),
                *("--name=lab", f"--data-dir={self._etcd_data}", "--unsafe-no-fsync", "--log-level=warn"),
                *(f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
                *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
                f"--initial-cluster=lab={peers}",
            ]
        )
        self._daemon("egress").start([sys.executable, str(LAB / "egress.py"), str(self.state)])

    def start_api_server(self) -> None:
        """Start the API server alone, and return when it is ready."""
        etcd = f"http://{LOOPBACK}:{self.ports['etcd']}"
        apiserver = [
            str(gobuild.build(gobuild.KUBERNETES) / "kube-apiserver"),
            f"--etcd-servers={etcd}",
            *(f"--bind-address={LOOPBACK}", f"--secure-port={self.ports['apiserver']}"),
            *(f"--advertise-address={HOST_SEEN_FROM_NODE}", "--endpoint-reconciler-type=none"),
            *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
            f"--client-ca-file={self._certificates / 'ca.crt'}",
            f"--tls-cert-file={self._certificates / 'apiserver.crt'}",
            f"--tls-private-key-file={self._certificates / 'apiserver.key'}",
            f"--kubelet-client-certificate={self._certificates / 'kubelet-client.crt'}",
            f"--kubelet-client-key={self._certificates / 'kubelet-client.key'}",
            "--kubelet-preferred-address-types=Hostname",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self._certificates / 'service-accounts.key'}",
            f"--service-account-signing-key-file={self._certificates / 'service-accounts.key'}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--allow-privileged=true",
            f"--egress-selector-config-file={self.state / 'egress-selector.json'}",
            *self._gate_flags(),
            *(f"--runtime-config={version}=true" for version in self.served),
        ]
        # Node names have to resolve for the API server; a hosts file that no other process sees says to what.
        namespace = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        wrapped = [command("unshare"), *namespace, "sh", "-c", script, str(self.state / "hosts"), *apiserver]
        self._daemon("kube-apiserver").start(wrapped)
        self._await_ready()

    def _await_ready(self, patience_s: float = 240) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            heed()
            self._daemon("etcd").require_alive()
            self._daemon("kube-apiserver").require_alive()
            try:
                self.get("/readyz")
            except (urllib.error.URLError, http.client.HTTPException, OSError) as refusal:
                if time.monotonic() > deadline:
                    raise LabError(
                        f"the API server is not ready after {patience_s:.0f} s: {refusal}"
                    ) from refusal
                time.sleep(0.05)
            else:
                return
