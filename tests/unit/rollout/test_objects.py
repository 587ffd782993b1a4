"""Objects of the Kubernetes API, as JSON has them, become what a roll-out sees."""

import pytest

from numaforge.rollout import objects
from numaforge.rollout.cluster import Lease, Owner, Taint, Toleration
from tests.fixtures.tables import cases


def node(*, metadata=None, spec=None, status=None):
    identity = {"name": "gpu-01", "uid": "u-1", "resourceVersion": "7"}
    return objects.node({"metadata": identity | (metadata or {}), "spec": spec or {}, "status": status or {}})


def pod(*, metadata=None, spec=None, status=None):
    identity = {"namespace": "default", "name": "web-1", "uid": "u-2"}
    return objects.pod({"metadata": identity | (metadata or {}), "spec": spec or {}, "status": status or {}})


def ready(status, message="said"):
    return {
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": status, "message": message},
        ]
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(ready("True"), (True, "said"), id="true"),
        pytest.param(ready("False"), (False, "said"), id="false"),
        pytest.param(ready("Unknown"), (False, "said"), id="unknown"),
        pytest.param({}, (False, "the kubelet has not reported yet"), id="never-reported"),
    ],
)
def test_node_is_ready_only_when_condition_is_true(status, expected):
    found = node(status=status)
    assert (found.ready, found.ready_message) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"unschedulable": True}, True, id="cordoned"),
        pytest.param({"unschedulable": False}, False, id="false"),
        pytest.param({}, False, id="left-out"),
    ],
)
def test_cordon_is_read_from_unschedulable_field(spec, expected):
    assert node(spec=spec).unschedulable is expected


def test_a_taint_may_have_no_value():
    spec = {
        "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "1", "effect": "NoExecute"}]
    }
    assert node(spec=spec).taints == (Taint("a", "", "NoSchedule"), Taint("b", "1", "NoExecute"))


def test_node_has_identity_labels_annotations_and_resources():
    found = node(
        metadata={
            "labels": {"zone": "a"},
            "annotations": {"note": "b"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        status={"allocatable": {"nvidia.com/gpu": "8"}},
    )
    assert (found.name, found.uid, found.resource_version, found.deleting) == ("gpu-01", "u-1", "7", True)
    assert (found.labels, found.annotations) == ({"zone": "a"}, {"note": "b"})
    assert found.allocatable == {"nvidia.com/gpu": "8"}


@cases(
    "status, expected",
    {
        "as-its-kubelet-reports": (
            {"nodeInfo": {"machineID": "m", "bootID": "b", "systemUUID": "S", "kernelVersion": "6.1"}},
            ("m", "b", "S"),
        ),
        "in-part": ({"nodeInfo": {"machineID": "", "bootID": "b"}}, ("", "b", "")),
        "never-reported": ({}, ("", "", "")),
    },
)
def test_node_status_identifies_its_machine(status, expected):
    found = node(status=status)
    assert (found.machine_id, found.boot_id, found.system_uuid) == expected


@cases(
    "references, expected",
    {
        "nobody": ([], None),
        "an-owner-that-does-not-control": ([{"kind": "Job", "name": "j", "uid": "1"}], None),
        "the-one-that-controls": (
            [
                {"kind": "Tenant", "name": "t", "uid": "1"},
                {"kind": "ReplicaSet", "name": "web", "uid": "2", "controller": True},
            ],
            Owner("ReplicaSet", "web", "2"),
        ),
    },
)
def test_the_owner_of_a_pod_is_its_controller(references, expected):
    assert pod(metadata={"ownerReferences": references}).owner == expected


def test_omitted_pod_fields_have_api_defaults():
    found = pod()
    assert (found.node, found.phase, found.grace_seconds, found.priority) == ("", "Pending", 30, 0)
    assert (found.mirror, found.deleting, found.finalizers, found.empty_dirs) == (False, False, (), ())


def test_pod_has_every_field_a_drain_needs():
    found = pod(
        metadata={
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["a/b"],
        },
        spec={
            "nodeName": "gpu-01",
            "terminationGracePeriodSeconds": 0,
            "priority": 1000,
            "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "config", "configMap": {}}],
        },
        status={"phase": "Running"},
    )
    assert (found.mirror, found.deleting, found.finalizers) == (True, True, ("a/b",))
    assert (found.node, found.phase, found.grace_seconds, found.priority) == ("gpu-01", "Running", 0, 1000)
    assert found.empty_dirs == ("scratch",)


def test_toleration_keeps_unset_fields():
    spec = {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]}
    assert pod(spec=spec).tolerations == (
        Toleration(None, "Exists", None, None),
        Toleration("a", "Equal", "b", "NoSchedule"),
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, None, id="none-selects-nothing"),
        pytest.param({"selector": {}}, {}, id="an-empty-one-selects-everything"),
    ],
)
def test_budget_selector_is_kept_verbatim(spec, expected):
    document = {"metadata": {"namespace": "default", "name": "web"}, "spec": spec}
    assert objects.disruption_budget(document).selector == expected


def test_budget_without_status_allows_no_disruption():
    document = {"metadata": {"namespace": "default", "name": "web"}, "spec": {"selector": {}}}
    assert objects.disruption_budget(document).disruptions_allowed == 0


def test_lease_without_holder_is_free():
    document = {"metadata": {"name": "slot", "resourceVersion": "3"}, "spec": {"leaseTransitions": 1}}
    assert objects.lease(document) == Lease("slot", resource_version="3")


def container(cpu: str, **fields: object) -> dict[str, object]:
    return {"name": "main", "resources": {"requests": {"cpu": cpu}}, **fields}


@cases(
    "spec, qos, whole",
    {
        "whole-cpus": ({"containers": [container("4"), container("2000m")]}, "Guaranteed", 6),
        "shares-apart": ({"containers": [container("4"), container("1500m")]}, "Guaranteed", 4),
        "not-Guaranteed": ({"containers": [container("4")]}, "Burstable", 0),
        "init-containers-that-go-on": (
            {
                "containers": [container("4")],
                "initContainers": [container("2"), container("1", restartPolicy="Always")],
            },
            "Guaranteed",
            5,
        ),
        "no-quantity": ({"containers": [container("many")]}, "Guaranteed", 0),
        "asks-for-none": ({"containers": [{"name": "main"}]}, "Guaranteed", 0),
    },
)
def test_exclusive_cpus_of_a_pod_under_static_policy(spec, qos, whole):
    assert pod(spec=spec, status={"qosClass": qos}).whole_cpus == whole
