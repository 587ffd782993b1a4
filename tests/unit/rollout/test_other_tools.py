"""Other tools' marks, and when they mean that somebody is at work."""

from dataclasses import replace

import pytest

from numaforge.rollout.cluster import Taint
from numaforge.rollout.other_tools import foreign
from tests.fixtures.memory_cluster import UNSCHEDULABLE, workers
from tests.fixtures.tables import cases

NODE = workers(1)[0]
UPGRADE, MIG = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/mig.config.state"
NICS, SRIOV = "nvidia.com/ofed-driver-upgrade-state", "sriovnetwork.openshift.io/state"
MCO, DCGM = "machineconfiguration.openshift.io", "nvidia.com/gpu.deploy.dcgm"


def drains(wanted: str, applied: str | None) -> dict[str, str]:
    """Return MCO's annotations of a finished update, with the drain that it wants and has applied."""
    found = {f"{MCO}/state": "Done", f"{MCO}/desiredDrain": wanted}
    return found if applied is None else {**found, f"{MCO}/lastAppliedDrain": applied}


def tainted(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, tuple[Taint, ...]]:
    return {"taints": (Taint(key, value, effect),)}


NAMED = {
    "the GPU operator upgrades its driver (drain-required)": {"labels": {UPGRADE: "drain-required"}},
    "the network operator upgrades its driver (drain-required)": {"labels": {NICS: "drain-required"}},
    "the network operator upgrades its driver (upgrade-failed)": {"labels": {NICS: "upgrade-failed"}},
    "the SR-IOV network operator works on it (Draining)": {"annotations": {SRIOV: "Draining"}},
    "the SR-IOV network operator works on it (Reboot_Required)": {"annotations": {SRIOV: "Reboot_Required"}},
    "a NIC driver waits to be loaded": {
        "annotations": {"nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load": "true"}
    },
    "the machine config operator is about to drain it": {
        "annotations": drains("drain-rendered-b", "uncordon-rendered-a")
    },
    "the machine config operator is about to uncordon it": {
        "annotations": drains("uncordon-rendered-b", "drain-rendered-b")
    },
    "the node maintenance operator has drained it": tainted("medik8s.io/drain"),
    "self node remediation reboots it": tainted("medik8s.io/remediation", effect="NoExecute"),
    "its MIG geometry is being changed (pending)": {"labels": {MIG: "pending"}},
    "its MIG geometry is being changed (rebooting)": {"labels": {MIG: "rebooting"}},
    f"the GPU operator has paused its operands ({DCGM})": {"labels": {DCGM: "paused-for-mig-change"}},
    "NVIDIA Skyhook has cordoned it (skyhook.nvidia.com/cordon_a)": {
        "annotations": {"skyhook.nvidia.com/cordon_a": ""}
    },
    "kured is rebooting it": {"annotations": {"weave.works/kured-reboot-in-progress": "x"}},
    "the machine config operator works on it (Working)": {"annotations": {f"{MCO}/state": "Working"}},
    "Cluster API is about to delete its machine": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}},
    "its Node object is being deleted": {"deleting": True},
    "the cluster autoscaler is about to delete it": tainted("ToBeDeletedByClusterAutoscaler", "1"),
    "Karpenter is about to replace it": tainted("karpenter.sh/disrupted"),
    "it is marked as out of service": tainted("node.kubernetes.io/out-of-service", effect="NoExecute"),
}


@pytest.mark.parametrize(("said", "marks"), NAMED.items(), ids=NAMED)
def test_foreign_maintenance_is_named(said, marks):
    assert foreign(replace(NODE, **marks)) == said


def test_drain_that_was_never_applied_is_about_to_begin():
    node = replace(NODE, annotations=drains("drain-rendered-b", None))
    assert foreign(node) == "the machine config operator is about to drain it"


@cases(
    "marks",
    {
        "no mark": {},
        "all has ended": {"labels": {UPGRADE: "upgrade-done", MIG: "success", DCGM: "true"}},
        "nothing has begun": {"labels": {UPGRADE: "", MIG: "failed"}},
        "the operator is done": {"annotations": {f"{MCO}/state": "Done"}},
        "the drain that was wanted was applied": {"annotations": drains("uncordon-b", "uncordon-b")},
        "NICs are idle": {"labels": {NICS: "upgrade-done"}, "annotations": {SRIOV: "Idle"}},
        "a driver upgrade only waits": {"labels": {NICS: "upgrade-required"}, "annotations": {SRIOV: ""}},
        "a cordon alone": {"unschedulable": True, "taints": (UNSCHEDULABLE,)},
        "an autoscaler that only finds it idle, as a drain makes it": tainted(
            "DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule"
        ),
    },
)
def test_these_marks_do_not_count_as_maintenance(marks):
    assert foreign(replace(NODE, **marks)) is None
