"""Objects of the Kubernetes API, as JSON has them, become what a roll-out sees."""

from numaforge.rollout import objects
from numaforge.rollout.cluster import Lease, Owner, Taint, Toleration
from tests.fixtures.tables import cases


def node(*, metadata=None, spec=None, status=None):
    identity = {"name": "gpu-01", "uid": "u-1", "resourceVersion": "7"}
    return objects.node({"metadata": identity | (metadata or {}), "spec": spec or {}, "status": status or {}})


def pod(*, metadata=None, spec=None, status=None):
    identity = {"namespace": "default", "name": "web-1", "uid": "u-2"}
    return objects.pod({"metadata": identity | (metadata or {}), "spec": spec or {}, "status": status or {}})


def ready(status):
    listed = [
        {"type": "MemoryPressure", "status": "False"},
        {"type": "Ready", "status": status, "message": "said"},
    ]
    return node(status={"conditions": listed})


def budget(**spec):
    return objects.disruption_budget({"metadata": {"namespace": "default", "name": "web"}, "spec": spec})


def machine(**info):
    return node(status={"nodeInfo": info} if info else {})


def machine_ids(machine_id, boot_id, system_uuid):
    return {"machine_id": machine_id, "boot_id": boot_id, "system_uuid": system_uuid}


def owned(*references):
    return pod(metadata={"ownerReferences": [*references]})


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
BARE_TAINT, TAINT = {"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "1", "effect": "NoExecute"}
TENANT = {"kind": "Tenant", "name": "t", "uid": "1"}
WEB = {"kind": "ReplicaSet", "name": "web", "uid": "2", "controller": True}
LIVING = node(
    metadata={"labels": {"zone": "a"}, "annotations": {"note": "b"}, **DELETED},
    status={"allocatable": {"nvidia.com/gpu": "8"}},
)
TO_DRAIN = pod(
    metadata={"annotations": {"kubernetes.io/config.mirror": "x"}, "finalizers": ["a/b"], **DELETED},
    spec={
        "nodeName": "gpu-01",
        "terminationGracePeriodSeconds": 0,
        "priority": 1000,
        "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "config", "configMap": {}}],
        "tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}],
    },
    status={"phase": "Running"},
)


@cases(
    "made, fields",
    {
        "Ready is True": (ready("True"), {"ready": True, "ready_message": "said"}),
        "Ready is False": (ready("False"), {"ready": False, "ready_message": "said"}),
        "Ready is Unknown": (ready("Unknown"), {"ready": False}),
        "never reported": (node(), {"ready": False, "ready_message": "the kubelet has not reported yet"}),
        "cordoned": (node(spec={"unschedulable": True}), {"unschedulable": True}),
        "not cordoned": (node(spec={"unschedulable": False}), {"unschedulable": False}),
        "a cordon that is left out": (node(), {"unschedulable": False}),
        "a taint may have no value": (
            node(spec={"taints": [BARE_TAINT, TAINT]}),
            {"taints": (Taint("a", "", "NoSchedule"), Taint("b", "1", "NoExecute"))},
        ),
        "identity": (LIVING, {"name": "gpu-01", "uid": "u-1", "resource_version": "7", "deleting": True}),
        "labels and annotations": (LIVING, {"labels": {"zone": "a"}, "annotations": {"note": "b"}}),
        "resources": (LIVING, {"allocatable": {"nvidia.com/gpu": "8"}}),
        "its machine, as its kubelet reports": (
            machine(machineID="m", bootID="b", systemUUID="S", kernelVersion="6.1"),
            machine_ids("m", "b", "S"),
        ),
        "its machine, in part": (machine(machineID="", bootID="b"), machine_ids("", "b", "")),
        "its machine, never reported": (machine(), machine_ids("", "", "")),
        "a pod of nobody": (owned(), {"owner": None}),
        "an owner that does not control": (owned({"kind": "Job", "name": "j", "uid": "1"}), {"owner": None}),
        "the owner that controls": (owned(TENANT, WEB), {"owner": Owner("ReplicaSet", "web", "2")}),
        "where a pod runs by default": (pod(), {"node": "", "phase": "Pending", "mirror": False}),
        "how a pod ends by default": (pod(), {"grace_seconds": 30, "priority": 0, "deleting": False}),
        "what keeps a pod by default": (pod(), {"finalizers": (), "empty_dirs": ()}),
        "where a pod runs": (TO_DRAIN, {"node": "gpu-01", "phase": "Running", "mirror": True}),
        "how a pod ends": (TO_DRAIN, {"grace_seconds": 0, "priority": 1000, "deleting": True}),
        "what keeps a pod": (TO_DRAIN, {"finalizers": ("a/b",), "empty_dirs": ("scratch",)}),
        "what a pod tolerates": (
            TO_DRAIN,
            {
                "tolerations": (
                    Toleration(None, "Exists", None, None),
                    Toleration("a", "Equal", "b", "NoSchedule"),
                ),
            },
        ),
        "no selector selects nothing": (budget(), {"selector": None}),
        "an empty selector selects everything": (budget(selector={}), {"selector": {}}),
        "a budget without status allows nothing": (budget(selector={}), {"disruptions_allowed": 0}),
    },
)
def test_fields_of_an_object_are_read(made, fields):
    assert {name: getattr(made, name) for name in fields} == fields


def test_lease_without_holder_is_free():
    document = {"metadata": {"name": "slot", "resourceVersion": "3"}, "spec": {"leaseTransitions": 1}}
    assert objects.lease(document) == Lease("slot", resource_version="3")


def container(cpu: str, **fields: object) -> dict[str, object]:
    return {"name": "main", "resources": {"requests": {"cpu": cpu}}, **fields}


BESIDE = {
    "containers": [container("4")],
    "initContainers": [container("2"), container("1", restartPolicy="Always")],
}


@cases(
    "spec, qos, whole",
    {
        "whole CPUs": ({"containers": [container("4"), container("2000m")]}, "Guaranteed", 6),
        "shares apart": ({"containers": [container("4"), container("1500m")]}, "Guaranteed", 4),
        "not Guaranteed": ({"containers": [container("4")]}, "Burstable", 0),
        "init containers that go on": (BESIDE, "Guaranteed", 5),
        "no quantity": ({"containers": [container("many")]}, "Guaranteed", 0),
        "asks for none": ({"containers": [{"name": "main"}]}, "Guaranteed", 0),
    },
)
def test_exclusive_cpus_of_a_pod_under_static_policy(spec, qos, whole):
    assert pod(spec=spec, status={"qosClass": qos}).whole_cpus == whole
