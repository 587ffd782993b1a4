"""The cluster through kubectl, on a real API server with kwok's nodes and pods: no virtual machine."""

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import pki
from lab.kwok import Fleet
from lab.paths import REPOSITORY
from lab.process import Daemon
from numaforge.rollout import kubectl
from numaforge.rollout.cluster import (
    ApiUnreachableError,
    ClusterError,
    ClusterNode,
    ClusterPod,
    Eviction,
    ForbiddenError,
    Lease,
)
from numaforge.rollout.kubectl import KubectlCluster, permissions
from numaforge.rollout.labels import WRITTEN
from numaforge.rollout.record import MARK
from tests.fixtures.cluster_contract import NODES, ClusterContract, World
from tests.fixtures.processes import halted
from tests.fixtures.tables import cases
from tests.lab.fleet import Observer
from tests.lab.front import Front

RBAC = REPOSITORY / "docs" / "rollout-rbac.yaml"
DEFAULT = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numaforge/leases"


class KubectlWorld(World):
    def __init__(self, fleet: Fleet, cluster: KubectlCluster):
        self.fleet = fleet
        self.cluster = cluster

    def until(self, holds):
        self.fleet.wait_until(holds, "does not come about")

    def run(self, kind, name, replicas, *, finalizers=()):
        labels = {"app": name}
        metadata = {"labels": labels, "finalizers": list(finalizers)}
        spec = {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 1}
        if kind == "ClusterPod":
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

    def taint(self, name, *keys):
        taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
        self.fleet.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})

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


BELOW = "/k8s/clusters/c-abc"
"""The path in the URL of a server, as Rancher's have one."""


def test_each_kind_of_request_reaches_a_server_below_a_url_path(world, tmp_path, monkeypatch):
    world.run("ClusterPod", "below", 1)
    world.taint("node-000", "test/below")
    [pod] = world.pods("below")
    monkeypatch.setattr(kubectl, "PAGE", 3)
    program = str(world.fleet.control_plane.kubectl())
    with (
        Front(world.fleet.control_plane, tmp_path, BELOW) as front,
        KubectlCluster(front.kubeconfig, kubectl=program) as cluster,
    ):
        assert cluster.may(permissions()[0])
        assert [node.name for node in cluster.nodes()] == list(NODES), "page by page"
        node = cluster.lift_taint(cluster.node("node-000"), "test/below")
        node = cluster.patch_node(node, annotations={"test/below": "1"})
        cluster.patch_node(node, annotations={"test/below": None})
        assert "test/below" not in {taint.key for taint in node.taints}
        assert node.annotations["test/below"] == "1"
        assert cluster.node_heartbeat("node-000")
        with pytest.raises(ApiUnreachableError):  # kwok's nodes have no kubelet
            cluster.running_config("node-000")
        lease = cluster.put_lease(cluster.put_lease(Lease("below", holder="one")))
        assert lease in cluster.leases()
        cluster.tell(node, "Tested", "from below")
        assert len(cluster.disruption_budgets()) == len(world.cluster.disruption_budgets())
        assert pod in cluster.pods(pod.node)
        assert cluster.evict(pod, dry_run=True).result is Eviction.ACCEPTED
        assert cluster.evict(pod).result is Eviction.ACCEPTED
        cluster.delete_pod(pod)
        world.until(lambda: world.pods("below") == [])


@contextlib.contextmanager
def login(fleet, user, *, token=None, **options):
    kubectl = str(fleet.control_plane.kubectl())
    with KubectlCluster(fleet.login(user, token=token), kubectl=kubectl, **options) as cluster:
        yield cluster


def run_kubectl(fleet, *arguments, kubeconfig=None, input_text=None):
    command = [
        str(fleet.control_plane.kubectl()),
        f"--kubeconfig={kubeconfig or fleet.kubeconfig}",
        *arguments,
    ]
    done = subprocess.run(command, input=input_text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# What is forbidden, and what is allowed


@pytest.fixture(scope="module")
def nobody(fleet):
    """A login without rights of its own."""
    with login(fleet, "nobody") as cluster:
        yield cluster


NODE = ClusterNode("node-000", uid="some-uid", resource_version="1")
POD = ClusterPod("default", "some-pod", "some-uid", "node-000")


@pytest.mark.parametrize(
    ("method", "arguments", "verb", "resource"),
    [
        ("node", ["node-000"], "get", "nodes"),
        ("nodes", [], "list", "nodes"),
        ("pods", ["node-000"], "list", "pods"),
        ("delete_pod", [POD], "delete", "pods"),
        ("disruption_budgets", [], "list", "poddisruptionbudgets"),
        ("leases", [], "list", "leases"),
        ("put_lease", [Lease("some-lease")], "create", "leases"),
        ("node_heartbeat", ["node-000"], "get", "leases"),
        ("running_config", ["node-000"], "get", "nodes/proxy"),
        ("tell", [NODE, "Tested", "said"], "create", "events"),
    ],
)
def test_forbidden_call_names_user_verb_and_resource(nobody, method, arguments, verb, resource):
    with pytest.raises(ForbiddenError, match=f'User "nobody" cannot {verb} resource "{resource}"'):
        getattr(nobody, method)(*arguments)


def test_forbidden_cordon_names_the_user(nobody):
    with pytest.raises(ForbiddenError, match='User "nobody" cannot patch resource "nodes"'):
        nobody.patch_node(NODE, unschedulable=True, annotations={})


def test_forbidden_eviction_is_refused_with_the_reason(nobody):
    answer = nobody.evict(POD)
    assert answer.result is Eviction.REFUSED
    assert 'User "nobody" cannot create resource "pods/eviction"' in answer.message


def test_login_without_rights_has_no_permission(nobody):
    assert [permission for permission in permissions() if nobody.may(permission)] == []


def test_documented_role_allows_a_rollout_and_nothing_more(world):
    fleet = world.fleet
    run_kubectl(fleet, "apply", f"--filename={RBAC}")
    token = run_kubectl(fleet, "create", "token", "numaforge-rollout", "--namespace=numaforge").strip()
    world.run("ClusterPod", "permitted", 1)
    [pod] = world.pods("permitted")
    with login(fleet, "rollout", token=token) as cluster:
        world.until(lambda: all(cluster.may(permission) for permission in permissions()))
        node = cluster.node("node-000")
        assert [found.name for found in cluster.nodes()] == list(NODES)
        cluster.patch_node(node, annotations={MARK: "1"})
        assert cluster.pods(pod.node)
        assert cluster.evict(pod, dry_run=True).result is Eviction.ACCEPTED
        with pytest.raises(ClusterError, match="deletes only pods that have ended"):
            cluster.delete_pod(pod)
        world.change_pod(pod, phase="Succeeded")
        cluster.delete_pod(pod)
        cluster.disruption_budgets()
        cluster.put_lease(cluster.put_lease(Lease("permitted", holder="rollout")))
        assert cluster.lease("permitted") in cluster.leases()
        assert cluster.node_heartbeat("node-000")
        with pytest.raises(ForbiddenError, match="nodes/proxy"):  # the nodes read it themselves
            cluster.running_config("node-000")
        cluster.tell(node, "Tested", "allowed")
    kubeconfig = fleet.state / "rollout.kubeconfig"
    other = run_kubectl(fleet, "create", "token", "default", "--namespace=numaforge").strip()
    for namespace in ("default", "numaforge", "kube-system", "kube-node-lease", "kube-public"):
        of_everybody = _rules(fleet, fleet.login("any-account", token=other), namespace)
        expected = {
            (permission.verb, permission.group, permission.resource)
            for permission in permissions()
            if permission.namespace in (None, namespace)
        }
        assert _rules(fleet, kubeconfig, namespace) - of_everybody == expected


OTHER_TAINT = {"taints": [{"key": "other", "effect": "NoSchedule"}]}


@pytest.fixture(scope="class")
def as_the_roll_out(fleet):
    """Change a node as the roll-out's service account would, and return what the API server says."""
    run_kubectl(fleet, "apply", f"--filename={RBAC}")
    run_kubectl(fleet, "taint", "node", "node-001", "own=1:PreferNoSchedule", "--overwrite")
    run_kubectl(fleet, "label", "node", "node-001", "own=1", "--overwrite")
    run_kubectl(fleet, "annotate", "node", "node-001", "own=1", "--overwrite")
    account = "system:serviceaccount:numaforge:numaforge-rollout"

    def change(patch, *, account=account):
        done = fleet.kubectl(
            *("patch", "node", "node-001", f"--as={account}", "--as-group=system:masters"),
            *("--type=merge", "--dry-run=server", f"--patch={json.dumps(patch)}"),
        )
        return done.stderr.strip()

    # A policy is in force some time after it was applied.
    fleet.wait_until(lambda: "denied" in change({"spec": OTHER_TAINT}), "does not enforce the policy")
    yield change
    run_kubectl(fleet, "taint", "node", "node-001", "own-")


class TestPolicy:
    """What the policy for Nodes permits the roll-out."""

    @cases(
        "patch, said",
        {
            "a-taint-away": ({"spec": {"taints": None}}, "nothing of a Node's spec"),
            "another-taint": ({"spec": OTHER_TAINT}, "nothing of a Node's spec"),
            "the-provider-id": ({"spec": {"providerID": "x://y"}}, "nothing of a Node's spec"),
            "a-label-away": ({"metadata": {"labels": {"own": None}}}, "no label of a Node but"),
            "a-label-changed": ({"metadata": {"labels": {"own": "2"}}}, "no label of a Node but"),
            "a-restricted-label": (
                {"metadata": {"labels": {"node-restriction.kubernetes.io/tenant": "a"}}},
                "no label of a Node but",
            ),
            "a-role": (
                {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
                "no label of a Node but",
            ),
            "an-annotation": ({"metadata": {"annotations": {"own": None}}}, "no annotation of a Node but"),
            "a-finalizer": ({"metadata": {"finalizers": ["example.com/x"]}}, "neither owners nor finalizers"),
            "an-owner": (
                {
                    "metadata": {
                        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}]
                    }
                },
                "neither owners nor finalizers",
            ),
        },
    )
    def test_admission_policy_refuses_other_node_changes_to_rollouts_only(self, as_the_roll_out, patch, said):
        assert f"denied request: a roll-out changes {said}" in as_the_roll_out(patch)
        assert as_the_roll_out(patch, account="an-admin") == ""

    @cases(
        "patch",
        {
            "the-cordon": {"spec": {"unschedulable": True}},
            "its-annotation": {"metadata": {"annotations": {MARK: "a"}}},
            "labels-of-a-plan": {"metadata": {"labels": dict.fromkeys(WRITTEN, "a")}},
        },
    )
    def test_node_changes_of_a_rollout_are_permitted(self, as_the_roll_out, patch):
        assert as_the_roll_out(patch) == ""


def test_kubelet_cannot_read_or_write_rollout_leases(world):
    world.cluster.put_lease(Lease("of-a-node"))
    path = world.fleet.login("system:node:node-002", organization="system:nodes")
    with KubectlCluster(path, kubectl=str(world.fleet.control_plane.kubectl())) as kubelet:
        for call in (
            lambda: kubelet.lease("of-a-node"),
            kubelet.leases,
            lambda: kubelet.put_lease(Lease("forged")),
            lambda: kubelet.put_lease(world.cluster.lease("of-a-node")),
        ):
            with pytest.raises(ForbiddenError):
                call()


def test_missing_namespace_is_reported_with_a_remedy(world):
    kubectl_path = str(world.fleet.control_plane.kubectl())
    with KubectlCluster(world.fleet.kubeconfig, namespace="missing", kubectl=kubectl_path) as cluster:
        with pytest.raises(ClusterError, match="the cluster has no namespace missing") as refused:
            cluster.put_lease(Lease("first"))
        assert "kubectl apply -f docs/rollout-rbac.yaml" in refused.value.remedy


@cases(
    "user, groups",
    {
        "a-node": ("system:node:node-000", ("system:nodes",)),
        "the-roll-out": ("system:serviceaccount:numaforge:numaforge-rollout", ("system:serviceaccounts",)),
    },
)
def test_node_may_read_configz_and_no_login_may_proxy_to_kubelets(world, user, groups):
    """A kubelet asks the API server this of who asks it for /configz: one permission, or else the other."""
    run_kubectl(world.fleet, "apply", f"--filename={RBAC}")

    def may(verb, subresource, node="node-000"):
        attributes = {"verb": verb, "resource": "nodes", "subresource": subresource, "name": node}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "groups": [*groups, "system:authenticated"],
                "resourceAttributes": {**attributes, "version": "v1"},
            },
        }
        answer = world.fleet.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return answer["status"]["allowed"]

    is_node = "system:nodes" in groups
    world.until(lambda: may("get", "configz") is is_node)
    assert not may("create", "configz")
    assert [may(verb, "proxy") for verb in ("get", "create")] == [False, False]


def _rules(fleet, kubeconfig, namespace):
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = run_kubectl(
        fleet,
        *("create", f"--raw={path}", "--filename=-"),
        kubeconfig=kubeconfig,
        input_text=json.dumps(review),
    )
    return {
        (verb, group, resource)
        for rule in json.loads(answer)["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


# Answers that only an API server gives


def test_admission_policy_refusal_is_quoted(world):
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    policy = {
        "metadata": {"name": "guarded"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {
                    "expression": "object.metadata.name != 'guarded'",
                    "message": "this pod is guarded by test.example",
                }
            ],
        },
    }
    binding = {
        "metadata": {"name": "guarded"},
        "spec": {"policyName": "guarded", "validationActions": ["Deny"]},
    }
    world.fleet.send("POST", f"{group}/validatingadmissionpolicies", policy)
    world.fleet.send("POST", f"{group}/validatingadmissionpolicybindings", binding)
    world.run("ClusterPod", "guarded", 1)
    [pod] = world.pods("guarded")
    world.until(lambda: world.cluster.evict(pod, dry_run=True).result is Eviction.REFUSED)
    answer = world.cluster.evict(pod)
    assert answer.result is Eviction.REFUSED
    assert "this pod is guarded by test.example" in answer.message
    assert world.pods("guarded") == [pod]


def test_busy_api_server_is_reported_as_throttling(world):
    """API priority and fairness leaves one user no seat but that of a request that is alone."""
    group = "/apis/flowcontrol.apiserver.k8s.io/v1"
    level = {
        "metadata": {"name": "none"},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 0,
                "lendablePercent": 0,
                "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Reject"},
            },
        },
    }
    rule = {
        "subjects": [{"kind": "User", "user": {"name": "throttled"}}],
        "resourceRules": [
            {
                "verbs": ["*"],
                "apiGroups": ["*"],
                "resources": ["*"],
                "clusterScope": True,
                "namespaces": ["*"],
            }
        ],
    }
    schema = {
        "metadata": {"name": "none"},
        "spec": {"priorityLevelConfiguration": {"name": "none"}, "matchingPrecedence": 2, "rules": [rule]},
    }
    world.fleet.send("POST", f"{group}/prioritylevelconfigurations", level)
    world.fleet.send("POST", f"{group}/flowschemas", schema)
    throttled = []

    def ask(method, *arguments):
        try:
            answer = method(*arguments)
        except ForbiddenError:  # a request that was alone gets through, to be told that it may not
            return
        except ApiUnreachableError as away:
            throttled.append(away.message)
        else:
            if answer.result is Eviction.THROTTLED:
                throttled.append(answer.retry_after)

    def is_throttled(method, *arguments):
        throttled.clear()
        list(pool.map(lambda _: ask(method, *arguments), range(64)))
        return throttled

    with login(world.fleet, "throttled") as cluster, ThreadPoolExecutor(16) as pool:
        world.until(lambda: is_throttled(cluster.evict, POD))
        # the API server asks for more the more it dropped of late: from 1 to 32 s
        assert {int(seconds) for seconds in throttled} <= set(range(1, 33)), (
            "seconds to wait, as the API server asks for"
        )
        world.until(lambda: is_throttled(cluster.nodes))
        assert all("(429)" in message for message in throttled)


def test_kubectl_describe_shows_the_event(world):
    node = world.cluster.node("node-001")
    world.cluster.tell(node, "Drained", "two pods have moved", warning=True)
    described = run_kubectl(world.fleet, "describe", "node", "node-001")
    assert re.search(r"Warning\s+Drained\s+\S+\s+numaforge\s+two pods have moved", described)


def test_lease_records_holder_renewal_and_transitions(world):
    def spec():
        return world.fleet.get(f"{LEASES}/hands")["spec"]

    lease = world.cluster.put_lease(Lease("hands", holder="one"))
    first = spec()
    lease = world.cluster.put_lease(lease)
    renewed = spec()
    assert (first["holderIdentity"], first["leaseTransitions"]) == ("one", 1)
    assert renewed["renewTime"] > first["renewTime"]
    assert {**renewed, "renewTime": None} == {**first, "renewTime": None}
    world.cluster.put_lease(dataclasses.replace(lease, holder="two"))
    taken = spec()
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("two", 2)
    assert taken["acquireTime"] > first["acquireTime"]


def test_foreign_lease_is_not_listed(world):
    world.fleet.send("POST", LEASES, {"metadata": {"name": "other"}, "spec": {"holderIdentity": "other"}})
    assert "other" not in [lease.name for lease in world.cluster.leases()]


def test_leases_are_stored_in_the_requested_namespace(world):
    kubectl_path = str(world.fleet.control_plane.kubectl())
    with KubectlCluster(world.fleet.kubeconfig, namespace="default", kubectl=kubectl_path) as cluster:
        cluster.put_lease(Lease("elsewhere"))
        assert [lease.name for lease in cluster.leases()] == ["elsewhere"]
    assert "elsewhere" not in [lease.name for lease in world.cluster.leases()]


# When a login is refused


@pytest.fixture
def front(fleet, tmp_path):
    with Front(fleet.control_plane, tmp_path) as front:
        yield front


@pytest.mark.parametrize(
    ("method", "arguments", "verb"),
    [
        ("nodes", [], "GET"),
        ("evict", [POD], "POST"),
        ("delete_pod", [POD], "DELETE"),
        ("tell", [NODE, "Tested", "once"], "POST"),
        ("put_lease", [Lease("once-refused")], "POST"),
    ],
)
def test_every_request_is_retried_after_a_first_401(fleet, front, method, arguments, verb):
    """As where kubectl fetches a new token after the first 401."""
    refused = []

    def once(asked, path):
        if not refused and path != "/version":
            refused.append(asked)
            return True
        return False

    front.refuses = once
    with KubectlCluster(front.kubeconfig, kubectl=str(fleet.control_plane.kubectl())) as cluster:
        getattr(cluster, method)(*arguments)
    first, again = front.asked[1:]
    assert (refused, first) == ([verb], again)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("node", ["node-000"]),
        ("pods", ["node-000"]),
        ("evict", [POD]),
        ("delete_pod", [POD]),
        ("put_lease", [Lease("never")]),
        ("may", [permissions()[0]]),
    ],
)
def test_login_refused_mid_session_counts_as_unreachable_api_server(fleet, front, method, arguments):
    with KubectlCluster(front.kubeconfig, kubectl=str(fleet.control_plane.kubectl())) as cluster:
        front.refuses = lambda _method, _path: True
        with pytest.raises(ApiUnreachableError) as refusal:
            getattr(cluster, method)(*arguments)
    assert refusal.value.message == f"{front.url} does not accept this login now: Unauthorized (401)"
    assert "log in again" in str(refusal.value)


def test_session_waits_until_a_starting_api_server_accepts_the_login(fleet, front):
    refusals = [True] * 3
    front.refuses = lambda _method, _path: bool(refusals) and refusals.pop()
    with KubectlCluster(front.kubeconfig, kubectl=str(fleet.control_plane.kubectl())) as cluster:
        assert refusals == []
        assert len(cluster.nodes()) == len(NODES)


def test_expired_login_counts_as_away_until_the_kubeconfig_has_a_new_login(world):
    """A token whose account is deleted ends; one of a new account of that name is another login."""
    fleet, account = world.fleet, ("brief", "--namespace=default")

    def log_in():
        run_kubectl(fleet, "create", "serviceaccount", *account)
        return fleet.login("brief", token=run_kubectl(fleet, "create", "token", *account).strip())

    def said(cluster):
        try:
            cluster.node("node-000")
        except ClusterError as error:
            return type(error), error.message

    with KubectlCluster(log_in(), kubectl=str(fleet.control_plane.kubectl())) as cluster:
        assert said(cluster)[0] is ForbiddenError, "logged in, without rights of its own"
        run_kubectl(fleet, "delete", "serviceaccount", *account)
        world.until(lambda: said(cluster)[0] is ApiUnreachableError)
        assert "does not accept this login now: Unauthorized (401)" in said(cluster)[1]
        log_in()
        world.until(lambda: said(cluster)[0] is ForbiddenError)


# When something is away


def test_stopped_api_server_counts_as_away_until_restarted(world):
    world.fleet.control_plane.stop_api_server()
    try:
        for call in (
            lambda: world.cluster.nodes(),
            lambda: world.cluster.evict(POD),
            lambda: world.cluster.put_lease(Lease("away")),
        ):
            with pytest.raises(ApiUnreachableError, match="connection refused"):
                call()
    finally:
        world.fleet.control_plane.start_api_server()
    world.until(lambda: world.fleet.ready_nodes() >= set(NODES))
    assert [node.name for node in world.cluster.nodes()] == list(NODES)


def test_greenlets_share_a_cluster_and_wait_concurrently(fleet):
    """Twenty greenlets ask an API server that is halted: all give up after one timeout, not after twenty."""
    api_server = Daemon("kube-apiserver", fleet.state).pid()
    command = [sys.executable, "-c", GREENLETS, str(fleet.kubeconfig), str(fleet.control_plane.kubectl())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "100 answers\n"
        with halted(api_server):
            print("go", file=process.stdin, flush=True)
            away, seconds = process.stdout.readline().split()
    assert int(away) == 20
    assert 2 <= float(seconds) < 10
    assert process.returncode == 0


GREENLETS = """
from gevent import monkey
monkey.patch_all()
import sys, time
from pathlib import Path
import gevent
from numaforge.rollout.cluster import ApiUnreachableError
from numaforge.rollout.kubectl import KubectlCluster

def ask(number):
    return [cluster.node(f"node-00{number % 4}").name for _ in range(5)]

def fail(number):
    try:
        cluster.nodes()
    except ApiUnreachableError:
        return 1
    return 0

with KubectlCluster(Path(sys.argv[1]), kubectl=sys.argv[2], request_seconds=2) as cluster:
    jobs = [gevent.spawn(ask, number) for number in range(20)]
    gevent.joinall(jobs, raise_error=True)
    print(sum(len(job.value) for job in jobs), "answers", flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    jobs = [gevent.spawn(fail, number) for number in range(20)]
    gevent.joinall(jobs, raise_error=True)
    print(sum(job.value for job in jobs), time.monotonic() - begun, flush=True)
"""


def proxies(fleet):
    """Return the `kubectl proxy` processes on this kubeconfig, each with its socket."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
        except OSError:  # it has just ended
            continue
        if words[0].endswith("kubectl") and f"--kubeconfig={fleet.kubeconfig}" in words and "proxy" in words:
            [path] = [word.removeprefix("--unix-socket=") for word in words if "--unix-socket=" in word]
            found[int(process.name)] = Path(path)
    return found


def test_dead_proxy_is_restarted(world):
    before = proxies(world.fleet)
    with KubectlCluster(world.fleet.kubeconfig, kubectl=str(world.fleet.control_plane.kubectl())) as cluster:
        [proxy] = proxies(world.fleet).keys() - before
        os.kill(proxy, signal.SIGKILL)
        world.until(lambda: proxies(world.fleet) == before)
        assert len(cluster.nodes()) == len(NODES)


def test_close_leaves_no_process_and_no_file(fleet):
    before = proxies(fleet)
    with KubectlCluster(fleet.kubeconfig, kubectl=str(fleet.control_plane.kubectl())) as cluster:
        [socket] = [path for process, path in proxies(fleet).items() if process not in before]
        assert socket.parent.stat().st_mode & 0o777 == 0o700
    assert not socket.parent.exists()
    assert proxies(fleet) == before
    with pytest.raises(ClusterError, match="closed"):
        cluster.nodes()


SLEEPER = """
import sys, time
from pathlib import Path
from numaforge.rollout.kubectl import KubectlCluster

with KubectlCluster(Path(sys.argv[1]), kubectl=sys.argv[2]):
    print("entered", flush=True)
    time.sleep(60)
"""


def test_killed_process_leaves_no_proxy(world):
    before = proxies(world.fleet)
    command = [
        sys.executable,
        "-c",
        SLEEPER,
        str(world.fleet.kubeconfig),
        str(world.fleet.control_plane.kubectl()),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "entered\n"
        assert len(proxies(world.fleet)) == len(before) + 1
        process.kill()
    world.until(lambda: proxies(world.fleet) == before)


# What is refused before anything is touched


def test_missing_kubectl_is_refused(fleet):
    with pytest.raises(ClusterError, match="the program no-such-kubectl is not installed here"):
        KubectlCluster(fleet.kubeconfig, kubectl="no-such-kubectl").__enter__()


def _no_file(fleet, folder):
    return folder / "absent", None


def _a_folder(fleet, folder):
    return folder, None


def _not_yaml(fleet, folder):
    path = folder / "config"
    path.write_text("a: [")
    return path, None


def _without_context(fleet, folder):
    path = folder / "config"
    path.write_text("apiVersion: v1\nkind: Config\n")
    return path, None


def _unknown_context(fleet, folder):
    return fleet.kubeconfig, "production"


def _closed_port(fleet, folder):
    port = fleet.control_plane.ports["apiserver"]
    path = folder / "config"
    path.write_text(fleet.kubeconfig.read_text().replace(f":{port}", ":1"))
    return path, None


def _foreign_authority(fleet, folder):
    path = folder / "config"
    server = f"https://127.0.0.1:{fleet.control_plane.ports['apiserver']}"
    other = pki.authority("another")
    path.write_bytes(pki.kubeconfig(server, other, "admin", pki.issue(other, "admin")))
    return path, None


def _no_api(fleet, folder):
    port = fleet.control_plane.ports["apiserver"]
    path = folder / "config"
    path.write_text(fleet.kubeconfig.read_text().replace(f":{port}", f":{port}/k8s/clusters/c-other"))
    return path, None


def _unknown_token(fleet, folder):
    return fleet.login("stranger", token="x"), None  # noqa: S106


@cases(
    "case, said",
    {
        "no-kubeconfig": (_no_file, "absent: the kubeconfig cannot be read: No such file"),
        "a-folder": (_a_folder, "the kubeconfig cannot be read: Is a directory"),
        "not-a-kubeconfig": (_not_yaml, "error loading config file"),
        "no-context": (_without_context, "there is no kubeconfig with a current context"),
        "unknown-context": (_unknown_context, "production"),
        "nobody-answers": (_closed_port, "connection refused"),
        "another-authority": (_foreign_authority, "certificate"),
        "unknown-login": (_unknown_token, "does not accept this login: Unauthorized (401)\n  log in again"),
        "no-api-there": (_no_api, "cannot be asked: 404 page not found (404)"),
    },
)
def test_unusable_cluster_is_refused_at_once(fleet, tmp_path, monkeypatch, case, said):
    monkeypatch.setattr(kubectl, "LOGIN_SECONDS", 1.0)
    kubeconfig, context = case(fleet, tmp_path)
    cluster = KubectlCluster(kubeconfig, context=context, kubectl=str(fleet.control_plane.kubectl()))
    with pytest.raises(ClusterError, match=re.escape(said)):
        cluster.__enter__()
    assert not [path for path in proxies(fleet).values() if not path.parent.exists()]


def test_missing_kubeconfig_is_refused(fleet, tmp_path, monkeypatch):
    cluster = KubectlCluster(kubectl=str(fleet.control_plane.kubectl()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(ClusterError, match="there is no kubeconfig with a current context"):
        cluster.__enter__()


def test_kubeconfig_is_read_from_the_environment(fleet, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(fleet.kubeconfig))
    with KubectlCluster(kubectl=str(fleet.control_plane.kubectl())) as cluster:
        assert len(cluster.nodes()) == len(NODES)


# The observer that the tests of a fleet trust


def test_observer_counts_nodes_out_of_service_at_the_same_time(world):
    def cordon(name, unschedulable):
        world.fleet.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable}})

    for node in NODES:
        cordon(node, False)
    world.until(lambda: not any(node.taints for node in world.cluster.nodes()))
    with Observer(world.fleet) as observer:
        cordon("node-001", True)
        cordon("node-003", True)
        cordon("node-001", False)
        cordon("node-000", True)
        cordon("node-000", False)
        cordon("node-003", False)
    assert observer.most.out == {"node-001", "node-003"}
    assert (observer.most_in("zone-0"), observer.most_in("zone-1"), observer.most_zones) == (1, 2, 2)
    assert observer.order == ["node-001", "node-003", "node-000"]
