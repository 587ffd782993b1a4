"""A node of a cloud: cloud-init sets it up from a drive, and `kubeadm join` has it join the lab's cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab import cluster, gobuild, image, pki
from lab.controlplane import SERVICE_RANGE
from lab.errors import LabError
from lab.machines import SMALL_GPU_SERVER
from lab.node import HOST_SEEN_FROM_NODE, Node

DISCOVERY = "/etc/kubernetes/discovery.conf"
JOIN = "/etc/kubernetes/join.yaml"
_PATIENCE = "30m0s"
"""For a kubelet that an emulated CPU starts."""
_BOOTSTRAPPERS = "system:bootstrappers:kubeadm:default-node-token"


@dataclass(frozen=True)
class SeededNode(Node):
    """A node that has a drive from which cloud-init reads its user-data, and a UUID by its firmware."""

    system_uuid: str = "4c4c4544-0042-4a10-8052-c3c04f4b5a32"

    @property
    def seed(self) -> Path:
        return self.folder / "seed"

    def qemu_arguments(self) -> list[str]:
        drive = f"driver=vvfat,dir={self.seed},label=CIDATA,read-only=on,if=none,id=seed"
        return [
            *super().qemu_arguments(),
            *("-uuid", self.system_uuid),
            *("-drive", drive, "-device", "virtio-blk-pci,drive=seed,bus=pcie.0,addr=6"),
        ]

    def write_seed(self, user_data: Mapping[str, Any]) -> None:
        """Write what cloud-init reads at the next boot."""
        self.seed.mkdir(exist_ok=True)
        (self.seed / "meta-data").write_text(f"instance-id: {self.name}\n")
        (self.seed / "user-data").write_text(f"#cloud-config\n{yaml.safe_dump(dict(user_data))}")


class CloudLab(cluster.Lab):
    """A control plane that kubeadm has set up for nodes to join, and one node that has never booted."""

    def __init__(self, state: Path) -> None:
        super().__init__(state, baked=True, first=SMALL_GPU_SERVER)

    @property
    def server(self) -> str:
        """The API server's address, seen from the node."""
        return f"https://{HOST_SEEN_FROM_NODE}:{self.control_plane.ports['apiserver']}"

    @property
    def node(self) -> SeededNode:  # type: ignore[override]
        return SeededNode(**vars(self.nodes[0]))

    def start(self) -> None:
        """Start the control plane; the node is off."""
        disk = image.build(cloud=True)
        with self._locked(), self._ended_by_a_failure():
            self._stop_everything()
            self._create(disk, "cloud", 1)
            self.control_plane.start()
            self._upload()

    def _identity(
        self, node: Node, ca: pki.KeyPair, login: str, host_private: bytes, host_public: str
    ) -> dict[str, tuple[bytes, int, int]]:
        """Return the files that make a node this node, without a login; keep one that may join."""
        joins = pki.issue(ca, "system:bootstrap:lab", organization=_BOOTSTRAPPERS)
        discovery = pki.kubeconfig(self.server, ca, "system:bootstrap:lab", joins)
        pki.write_private(self.state / "discovery.conf", discovery)
        files = super()._identity(node, ca, login, host_private, host_public)
        kubernetes = ("etc/kubernetes/", "var/lib/kubelet/")
        return {path: file for path, file in files.items() if not path.startswith(kubernetes)}

    def _upload(self) -> None:
        """Have kubeadm write what `kubeadm join` reads in the cluster."""
        configuration = [
            {
                "apiVersion": "kubeadm.k8s.io/v1beta4",
                "kind": "InitConfiguration",
                "nodeRegistration": {"criSocket": "unix:///run/containerd/containerd.sock"},
            },
            {
                "apiVersion": "kubeadm.k8s.io/v1beta4",
                "kind": "ClusterConfiguration",
                "kubernetesVersion": self._kubeadm("version", "-o", "short").strip(),
                "controlPlaneEndpoint": self.server.removeprefix("https://"),
                "networking": {"serviceSubnet": SERVICE_RANGE},
            },
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "nodeStatusUpdateFrequency": "2s",
                "makeIPTablesUtilChains": False,
            },
        ]
        file = self.state / "kubeadm.yaml"
        file.write_text(yaml.safe_dump_all(configuration))
        for phase in (("upload-config", "all"), ("bootstrap-token",)):
            self._kubeadm(
                "init", "phase", *phase, "--config", str(file), "--kubeconfig", str(self.kubeconfig)
            )

    def _kubeadm(self, *arguments: str) -> str:
        program = gobuild.build(gobuild.KUBERNETES) / "kubeadm"
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"kubeadm {' '.join(arguments)}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def files_to_join(self) -> dict[str, str]:
        """Return the files that `kubeadm join --config JOIN` reads on the node, by path."""
        join = {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "JoinConfiguration",
            "discovery": {"file": {"kubeConfigPath": DISCOVERY}},
            "nodeRegistration": {
                "criSocket": "unix:///run/containerd/containerd.sock",
                "ignorePreflightErrors": ["all"],
                "kubeletExtraArgs": [{"name": "v", "value": "1"}],
            },
            "timeouts": {
                "discovery": _PATIENCE,
                "kubeletHealthCheck": _PATIENCE,
                "kubernetesAPICall": _PATIENCE,
                "tlsBootstrap": _PATIENCE,
            },
        }
        return {DISCOVERY: (self.state / "discovery.conf").read_text(), JOIN: json.dumps(join)}
