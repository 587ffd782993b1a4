"""Other tools' marks, and when they mean that somebody is at work."""

from dataclasses import replace

import pytest

from numaforge.rollout.cluster import Taint
from numaforge.rollout.maintenance import foreign
from tests.fixtures.memory_cluster import UNSCHEDULABLE, workers

NODE = workers(1)[0]
UPGRADE, MIG = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/mig.config.state"
NICS, SRIOV = "nvidia.com/ofed-driver-upgrade-state", "sriovnetwork.openshift.io/state"
MCO = "machineconfiguration.openshift.io"


def drains(wanted: str, applied: str | None) -> dict[str, str]:
    """Return MCO's annotations of a finished update, with the drain that it wants and has applied."""
    found = {f"{MCO}/state": "Done", f"{MCO}/desiredDrain": wanted}
    return found if applied is None else {**found, f"{MCO}/lastAppliedDrain": applied}


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ({"labels": {UPGRADE: "drain-required"}}, "the GPU operator upgrades its driver (drain-required)"),
        ({"labels": {NICS: "drain-required"}}, "the network operator upgrades its driver (drain-required)"),
        ({"labels": {NICS: "upgrade-failed"}}, "the network operator upgrades its driver (upgrade-failed)"),
        ({"annotations": {SRIOV: "Draining"}}, "the SR-IOV network operator works on it (Draining)"),
        (
            {"annotations": {SRIOV: "Reboot_Required"}},
            "the SR-IOV network operator works on it (Reboot_Required)",
        ),
        (
            {"annotations": {"nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load": "true"}},
            "a NIC driver waits to be loaded",
        ),
        (
            {"annotations": drains("drain-rendered-b", "uncordon-rendered-a")},
            "the machine config operator is about to drain it",
        ),
        (
            {"annotations": drains("drain-rendered-b", None)},
            "the machine config operator is about to drain it",
        ),
        (
            {"annotations": drains("uncordon-rendered-b", "drain-rendered-b")},
            "the machine config operator is about to uncordon it",
        ),
        (
            {"taints": (Taint("medik8s.io/drain", "", "NoSchedule"),)},
            "the node maintenance operator has drained it",
        ),
        (
            {"taints": (Taint("medik8s.io/remediation", "", "NoExecute"),)},
            "self node remediation reboots it",
        ),
        ({"labels": {MIG: "pending"}}, "its MIG geometry is being changed (pending)"),
        ({"labels": {MIG: "rebooting"}}, "its MIG geometry is being changed (rebooting)"),
        (
            {"labels": {"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}},
            "the GPU operator has paused its operands (nvidia.com/gpu.deploy.dcgm)",
        ),
        (
            {"annotations": {"skyhook.nvidia.com/cordon_a": ""}},
            "NVIDIA Skyhook has cordoned it (skyhook.nvidia.com/cordon_a)",
        ),
        ({"annotations": {"weave.works/kured-reboot-in-progress": "x"}}, "kured is rebooting it"),
        (
            {"annotations": {"machineconfiguration.openshift.io/state": "Working"}},
            "the machine config operator works on it (Working)",
        ),
        (
            {"annotations": {"cluster.x-k8s.io/delete-machine": ""}},
            "Cluster API is about to delete its machine",
        ),
        ({"deleting": True}, "its Node object is being deleted"),
        (
            {"taints": (Taint("ToBeDeletedByClusterAutoscaler", "1", "NoSchedule"),)},
            "the cluster autoscaler is about to delete it",
        ),
        (
            {"taints": (Taint("karpenter.sh/disrupted", "", "NoSchedule"),)},
            "Karpenter is about to replace it",
        ),
        (
            {"taints": (Taint("node.kubernetes.io/out-of-service", "", "NoExecute"),)},
            "it is marked as out of service",
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_foreign_maintenance_is_named(marks, said):
    assert foreign(replace(NODE, **marks)) == said


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"labels": {UPGRADE: "upgrade-done", MIG: "success", "nvidia.com/gpu.deploy.dcgm": "true"}},
        {"labels": {UPGRADE: "", MIG: "failed"}},
        {"annotations": {"machineconfiguration.openshift.io/state": "Done"}},
        {"annotations": drains("uncordon-rendered-b", "uncordon-rendered-b")},
        {"labels": {NICS: "upgrade-done"}, "annotations": {SRIOV: "Idle"}},
        {"labels": {NICS: "upgrade-required"}, "annotations": {SRIOV: ""}},
        {"unschedulable": True, "taints": (UNSCHEDULABLE,)},
        {"taints": (Taint("DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule"),)},
    ],
    ids=[
        "no mark",
        "all has ended",
        "nothing has begun",
        "the operator is done",
        "the drain that was wanted was applied",
        "NICs are idle",
        "a driver upgrade only waits",
        "a cordon alone",
        "an autoscaler that only finds it idle, as a drain makes it",
    ],
)
def test_these_marks_do_not_count_as_maintenance(marks):
    assert foreign(replace(NODE, **marks)) is None
