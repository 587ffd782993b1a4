"""The cluster in memory does what every cluster does, and what a simulation asks of it besides."""

import dataclasses

import pytest

from numaforge.rollout.cluster import ClusterPod, DisruptionBudget, Owner, Taint
from tests.fixtures.cluster_contract import NODES, ClusterContract, World
from tests.fixtures.control_plane_contract import ControlPlaneContract, ThreeControlPlanes
from tests.fixtures.memory_cluster import MemoryCluster, control_planes, workers
from tests.fixtures.tables import cases


class Clocked:
    now = 0.0

    def until(self, holds):
        deadline = self.now + 60
        while not holds():
            assert self.now < deadline
            self.now += 0.1


class MemoryWorld(Clocked, World):
    def __init__(self):
        nodes = [
            dataclasses.replace(node, name=name, labels={**node.labels, "kubernetes.io/hostname": name})
            for node, name in zip(workers(4, 2), NODES, strict=True)
        ]
        self.cluster = MemoryCluster(lambda: self.now, nodes)
        self.registered = 0

    def run(self, kind, name, replicas, *, finalizers=()):
        kind = {"Deployment": "ReplicaSet"}.get(kind, kind)
        for number in range(replicas):
            self.cluster.add_pod(
                ClusterPod(
                    "default",
                    f"{name}-{number}" if kind != "ClusterPod" else name,
                    f"{name}-uid-{number}",
                    NODES[number % len(NODES)],
                    labels={"app": name},
                    owner=Owner(kind, name, f"{name}-uid") if kind != "ClusterPod" else None,
                    finalizers=finalizers,
                )
            )

    def budget(self, name, app, max_unavailable):
        healthy = sum(pod.phase == "Running" for pod in self.pods(app))
        selector = {"matchLabels": {"app": app}}
        budget = DisruptionBudget("default", name, selector, 0, healthy, healthy - max_unavailable)
        self.cluster.set_budget(budget)

    def change_pod(self, pod, *, phase=None, finalizers=None):
        changes = {"phase": phase, "finalizers": finalizers}
        self.cluster.change_pod(pod, **{key: value for key, value in changes.items() if value is not None})

    def add_node(self, name):
        self.registered += 1
        self.cluster.add_node(dataclasses.replace(workers(1)[0], name=name, uid=f"{name}-{self.registered}"))

    def delete_node(self, name):
        self.cluster.delete_node(name)

    def annotate(self, name, key, value):
        node = self.cluster.node(name)
        self.cluster.change_node(name, annotations={**node.annotations, key: value})

    def taint(self, name, *keys):
        self.cluster.change_node(name, taints=tuple(Taint(key, "", "NoSchedule") for key in keys))

    def delete_lease(self, name):
        self.cluster.delete_lease(name)

    def silence_kubelet(self, name):
        self.cluster.stop_kubelet(name)


@pytest.fixture
def world():
    return MemoryWorld()


class TestMemoryCluster(ClusterContract):
    pass


def pod_on(node, name="web-1", **fields):
    return ClusterPod(
        "default",
        name,
        f"{name}-uid",
        node,
        labels={"app": "web"},
        owner=Owner("ReplicaSet", "web", "1"),
        **fields,
    )


WEB = DisruptionBudget(
    "default", "web", {"matchLabels": {"app": "web"}}, 0, current_healthy=3, desired_healthy=2
)


@cases("grace, ends", {"heeds SIGTERM": (30, 5.0), "killed after its grace period": (2, 2.0)})
def test_pod_ends_on_sigterm_or_after_grace_period(grace, ends):
    now = [0.0]
    cluster = MemoryCluster(
        lambda: now[0],
        workers(2),
        pods_on=lambda node: [pod_on(node, grace_seconds=grace)] if node == "node-0000" else [],
        shutdown_seconds=5.0,
    )
    [pod] = cluster.pods("node-0000")
    cluster.evict(pod)
    for seconds, there in ((ends - 0.01, True), (ends, False)):
        now[0] = seconds
        assert (pod.uid in [other.uid for other in cluster.pods("node-0000")]) is there


def test_stopped_kubelet_becomes_not_ready_and_ends_no_pods():
    now = [0.0]
    cluster = MemoryCluster(lambda: now[0], workers(2), pods_on=lambda node: [pod_on(node)])
    [pod] = cluster.pods("node-0000")
    cluster.stop_kubelet("node-0000")
    silent = cluster.node_heartbeat("node-0000")
    cluster.evict(pod)
    now[0] = 49.0
    assert cluster.node("node-0000").ready
    now[0] = 51.0
    assert not cluster.node("node-0000").ready
    assert cluster.node_heartbeat("node-0000") == silent
    assert [found.deleting for found in cluster.pods("node-0000")] == [True]
    cluster.start_kubelet("node-0000", config={"cpuManagerPolicy": "static"}, ready_after=3.0)
    assert cluster.node_heartbeat("node-0000") > silent
    assert not cluster.node("node-0000").ready
    now[0] = 54.0
    assert cluster.node("node-0000").ready
    assert cluster.running_config("node-0000") == {"cpuManagerPolicy": "static"}
    assert cluster.pods("node-0000") == []


def test_quick_kubelet_restart_keeps_node_ready():
    now = [0.0]
    cluster = MemoryCluster(lambda: now[0], workers(1))
    cluster.stop_kubelet("node-0000")
    now[0] = 5.0
    cluster.start_kubelet("node-0000")
    now[0] = 60.0
    assert cluster.node("node-0000").ready


def test_a_kubelet_reports_its_status_every_five_minutes():
    now = [0.0]
    cluster = MemoryCluster(lambda: now[0], workers(1))
    before = cluster.node("node-0000")
    now[0] = 299.0
    assert cluster.node("node-0000") == before
    now[0] = 300.0
    assert cluster.node("node-0000").resource_version != before.resource_version


def test_pod_waits_for_a_schedulable_node():
    now = [0.0]
    cluster = MemoryCluster(
        lambda: now[0], workers(1), pods_on=lambda node: [pod_on(node)], budgets=[WEB], startup_seconds=1.0
    )
    node = cluster.patch_node(cluster.node("node-0000"), unschedulable=True, annotations={})
    [pod] = cluster.pods("node-0000")
    cluster.evict(pod)
    now[0] = 30.0
    assert cluster.pods("node-0000") == []
    assert cluster.disruption_budgets()[0].disruptions_allowed == 0
    node = cluster.node("node-0000")
    cluster.patch_node(node, unschedulable=False, annotations={})
    now[0] = 40.0
    assert [found.phase for found in cluster.pods("node-0000")] == ["Running"]
    assert cluster.disruption_budgets()[0].disruptions_allowed == 1


class MemoryControlPlanes(Clocked, ThreeControlPlanes):
    second = "control-0001"

    def __init__(self):
        self.cluster = MemoryCluster(lambda: self.now, control_planes(3))

    def stop_etcd(self):
        self.cluster.etcd_stopped.add(self.second)

    def stop_api_server(self):
        self.cluster.stop_api_server(self.second)

    def start_all(self):
        self.cluster.etcd_stopped.clear()
        self.cluster.start_api_server(self.second)

    def without_permission(self):
        self.cluster.denied.add("get endpointslices")
        return self.cluster


class TestMemoryControlPlanes(ControlPlaneContract):
    @pytest.fixture
    def world(self):
        return MemoryControlPlanes()
