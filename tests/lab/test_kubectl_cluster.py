"""The cluster through kubectl, on a real API server with kwok's nodes and pods: no virtual machine."""

from __future__ import annotations

import time

import pytest

from lab.kwok import Fleet
from numaforge.rollout.kubectl import KubectlCluster
from tests.fixtures.cluster_contract import NODES, ClusterContract, World

DEFAULT = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class KubectlWorld(World):
    def __init__(self, fleet: Fleet, cluster: KubectlCluster):
        self.fleet = fleet
        self.cluster = cluster

    def until(self, holds):
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def run(self, kind, name, replicas, *, finalizers=()):
        labels = {"app": name}
        metadata = {"labels": labels, "finalizers": list(finalizers)}
        spec = {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 1}
        if kind == "Pod":
            self.fleet.send("POST", f"{DEFAULT}/pods", {"metadata": {"name": name, **metadata}, "spec": spec})
        else:
            template = {"metadata": metadata, "spec": spec}
            workload = {"selector": {"matchLabels": labels}, "template": template}
            if kind != "DaemonSet":
                workload["replicas"] = replicas
            document = {"metadata": {"name": name}, "spec": workload}
            self.fleet.send("POST", f"{APPS}/{kind.lower()}s", document)
        self.until(lambda: [pod.phase for pod in self.pods(name)] == ["Running"] * replicas)

    def budget(self, name, app, max_unavailable):
        self.fleet.add_budget(name, {"app": app}, max_unavailable)
        healthy = len(self.pods(app))
        self.until(lambda: self.disruption_budget(name).current_healthy == healthy)

    def change_pod(self, pod, *, phase=None, finalizers=None):
        path = f"{DEFAULT}/pods/{pod.name}"
        if phase is not None:
            self.fleet.patch(f"{path}/status", {"status": {"phase": phase}})
        if finalizers is not None:
            self.fleet.patch(path, {"metadata": {"finalizers": list(finalizers) or None}})

    def add_node(self, name):
        self.fleet.add_node(name)

    def delete_node(self, name):
        self.fleet.send("DELETE", f"/api/v1/nodes/{name}")

    def annotate(self, name, key, value):
        self.fleet.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {key: value}}})

    def delete_lease(self, name):
        self.fleet.send("DELETE", f"{LEASES}/{name}")

    def silence_kubelet(self, name):
        """Nothing: kwok's nodes have no kubelet."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Four nodes in two zones that renew their Leases every two seconds."""
    with Fleet(tmp_path_factory.mktemp("fleet"), lease_seconds=8) as fleet:
        fleet.add_nodes(len(NODES), zones=2)
        yield fleet


@pytest.fixture(scope="module")
def cluster(fleet):
    with KubectlCluster(fleet.kubeconfig, kubectl=str(fleet.control_plane.kubectl())) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def world(fleet, cluster):
    return KubectlWorld(fleet, cluster)


class TestKubectlCluster(ClusterContract):
    pass
