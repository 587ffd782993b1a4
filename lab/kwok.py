"""A control plane with kwok in place of machines: hundreds of nodes, and pods that really move."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from lab import gobuild, pki
from lab.api import Api
from lab.controlplane import PORT_NAMES, ControlPlane
from lab.paths import LAB
from lab.ports import LOOPBACK, Reserved, reserve, started_on_free_ports
from lab.process import Daemon, end_living
from lab.waiting import wait_until

ZONE = "topology.kubernetes.io/zone"
MANAGED = "kwok.x-k8s.io/node"
"""The label of the nodes that kwok simulates; a node that loses it sends no more heartbeats."""
ALLOCATABLE = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
NODE_INFO = {"machineID": "kwok-machine", "bootID": "kwok-boot", "systemUUID": "KWOK-UUID"}
"""The fictitious machine that every node reports."""
EVERY_SECONDS = 0.2
"""The polling interval: pods need a second each, and every poll costs CPU time."""
LEASE_SECONDS = 40
"""kwok renews a Lease four times in this time."""


class KwokNodes(Api):
    """Nodes of a control plane that kwok plays while this context lasts; `state` is where its log goes."""

    def __init__(
        self, control_plane: ControlPlane, state: Path, *, lease_seconds: int = LEASE_SECONDS
    ) -> None:
        super().__init__(control_plane)
        self.state = state
        self._lease_seconds = lease_seconds

    def __enter__(self) -> Self:
        self._start_kwok()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kwok.stop()

    def _start_kwok(self) -> None:
        kwok = gobuild.build(gobuild.KWOK) / "kwok"
        self._kwok.start(
            [
                str(kwok),
                f"--kubeconfig={self.control_plane.kubeconfig}",
                f"--config={LAB / 'kwok-stages.yaml'}",
                f"--manage-nodes-with-label-selector={MANAGED}",
                f"--node-lease-duration-seconds={self._lease_seconds}",
                "--v=WARN",
            ],
            environment=os.environ | {"HOME": str(self.state)},
        )

    def add_nodes(self, count: int, *, zones: int = 1, prefix: str = "node") -> list[str]:
        """Create nodes spread over zones, and return their names when all are Ready."""
        names = [f"{prefix}-{number:03}" for number in range(count)]
        with ThreadPoolExecutor(4) as pool:
            zone = {name: f"zone-{number % zones}" for number, name in enumerate(names)}
            list(pool.map(lambda name: self._register(name, zone[name]), names))
        self.wait_until(lambda: self.ready_nodes() >= set(names), "has nodes that are not Ready")
        return names

    def add_node(
        self, name: str, *, zone: str = "zone-0", allocatable: Mapping[str, str] = ALLOCATABLE
    ) -> None:
        """Create a node, and return when it is Ready."""
        self._register(name, zone, allocatable)
        self.wait_until(lambda: name in self.ready_nodes(), f"{name} is not Ready")

    def ready_nodes(self) -> set[str]:
        """Return the names of the nodes that are Ready and take pods."""
        return {
            node["metadata"]["name"]
            for node in self.get("/api/v1/nodes")["items"]
            if any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node["status"].get("conditions", [])
            )
            and not any(
                taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", [])
            )
        }

    def add_deployment(
        self,
        name: str,
        replicas: int,
        *,
        max_unavailable: int | str | None = None,
        namespace: str = "default",
        **pod_spec: Any,
    ) -> None:
        """Create a Deployment spread over the nodes, with a PodDisruptionBudget where one is given."""
        labels = {"app": name}
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
        spec = {
            "containers": [{"name": "main", "image": "none"}],
            "terminationGracePeriodSeconds": 5,
            "topologySpreadConstraints": [spread],
            **pod_spec,
        }
        deployment = {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        self.send("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
        if max_unavailable is not None:
            self.add_budget(name, labels, max_unavailable, namespace=namespace)

    def add_budget(
        self, name: str, labels: Mapping[str, str], max_unavailable: int | str, *, namespace: str = "default"
    ) -> None:
        """Create a PodDisruptionBudget."""
        budget = {
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": dict(labels)}, "maxUnavailable": max_unavailable},
        }
        self.send("POST", f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", budget)

    def await_deployments(self, patience_s: float = 120) -> None:
        """Return when every replica of every Deployment is available and every budget has been counted."""
        self.wait_until(self._settled, "has Deployments that are not complete", patience_s)

    def wait_until(self, holds: Callable[[], bool], otherwise: str, patience_s: float = 240) -> None:
        """Return when a condition holds; raise LabError when it does not in time."""

        def holds_while_kwok_lives() -> bool:
            self._kwok.require_alive()
            return holds()

        where = f"the fleet in {self.state}"
        wait_until(holds_while_kwok_lives, otherwise, patience_s, every_s=EVERY_SECONDS, where=where)

    def clear(self) -> None:
        """Delete every node and what the tests have made of namespaced objects."""
        for path in (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "/apis/apps/v1/namespaces/default/deployments",
            "/api/v1/namespaces/default/pods?gracePeriodSeconds=0",
            "/api/v1/nodes",
        ):
            self.send("DELETE", path)

    @property
    def _kwok(self) -> Daemon:
        return Daemon("kwok", self.state)

    def _register(self, name: str, zone: str, allocatable: Mapping[str, str] = ALLOCATABLE) -> None:
        labels = {"kubernetes.io/hostname": name, MANAGED: "fake", ZONE: zone}
        status = {"allocatable": allocatable, "capacity": allocatable, "nodeInfo": NODE_INFO}
        self.send("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})

    def _settled(self) -> bool:
        deployments = self.get("/apis/apps/v1/deployments")["items"]
        budgets = self.get("/apis/policy/v1/poddisruptionbudgets")["items"]
        return all(
            deployment["status"].get("availableReplicas", 0) == deployment["spec"]["replicas"]
            for deployment in deployments
        ) and all(
            budget["status"].get("observedGeneration") == budget["metadata"]["generation"]
            and budget["status"]["currentHealthy"] == budget["status"]["expectedPods"]
            for budget in budgets
        )


class Fleet(KwokNodes):
    """A control plane on loopback without machines, and kwok; a context manager of one state directory."""

    def __init__(
        self,
        state: Path,
        *,
        lease_seconds: int = LEASE_SECONDS,
        gates: tuple[str, ...] = (),
        served: tuple[str, ...] = (),
        choose: Callable[[Callable[[Reserved], bool]], Reserved] = reserve,
    ) -> None:
        self._more = {"gates": gates, "served": served}
        self._choose_ports = choose
        self._reserved: Reserved | None = None
        where = state.absolute()
        super().__init__(ControlPlane(where, {}, **self._more), where, lease_seconds=lease_seconds)
        self._ca = pki.authority()

    def __enter__(self) -> Self:
        """Start everything, and return when pods can be created; where a port is taken, on others."""
        started_on_free_ports(self._start, self.stop)
        return self

    def _start(self) -> None:
        gobuild.build(gobuild.KWOK)
        self._reserved = self._choose_ports(lambda found: len(found.ports) >= len(PORT_NAMES))
        ports = dict(zip(PORT_NAMES, self._reserved.ports, strict=False))
        Api.__init__(self, ControlPlane(self.state, ports, **self._more))
        self.state.mkdir(parents=True, exist_ok=True)
        for left_by_the_last_start in ("pki", "etcd"):
            shutil.rmtree(self.state / left_by_the_last_start, ignore_errors=True)
        self.control_plane.create(self._ca, [])
        self.control_plane.start()
        self._start_kwok()
        self.wait_until(self._lives_and_takes_pods, "does not take pods")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.control_plane.kubeconfig

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator, and return what it says, whether or not it fails."""
        command = [str(self.control_plane.kubectl()), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def stop(self) -> None:
        """End everything, and let others have the ports."""
        self._kwok.stop()
        self.control_plane.stop()
        end_living(self.state)
        if self._reserved is not None:
            self._reserved.release()

    def login(self, user: str, *, organization: str | None = None, token: str | None = None) -> Path:
        """Write the kubeconfig of a user with the rights of an organization, or of who owns a token."""
        server = f"https://{LOOPBACK}:{self.control_plane.ports['apiserver']}"
        pair = pki.issue(self._ca, user, organization=organization)
        document = yaml.safe_load(pki.kubeconfig(server, self._ca, user, pair))
        if token is not None:
            document["users"][0]["user"] = {"token": token}
        path = self.state / f"{user}.kubeconfig"
        pki.write_private(path, yaml.safe_dump(document).encode())
        return path

    def _lives_and_takes_pods(self) -> bool:
        self.control_plane.require_alive()
        return self._takes_pods()

    def _takes_pods(self) -> bool:
        accounts = self.get("/api/v1/namespaces/default/serviceaccounts")["items"]
        return any(account["metadata"]["name"] == "default" for account in accounts)
