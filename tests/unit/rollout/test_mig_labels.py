"""A MIG change that the labels say is under way: at work, or left behind, and then repaired."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from numaforge.lib.errors import NumaforgeError
from numaforge.rollout import objects
from numaforge.rollout.cluster import ConflictError, LabelWrite
from numaforge.rollout.mig_labels import MigChange, mig_changes, repair_labels
from tests.fixtures.node_records import write_record
from tests.fixtures.rollout_world import NODE, World, pod
from tests.fixtures.tables import cases

STATE = "nvidia.com/mig.config.state"
PLUGIN, GFD = "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.gpu-feature-discovery"
PAUSED = "paused-for-mig-change"
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
LEFT = {STATE: "pending", PLUGIN: PAUSED, GFD: PAUSED, "nvidia.com/gpu.deploy.dcgm": "false"}


def world(
    labels: dict[str, str], minutes: float | None = 60, *, manager: dict[str, Any] | None = None
) -> World:
    """Return a world whose node has these labels, written so long ago; `manager` are fields of its pod."""
    here = World(pods=[])
    time = "" if minutes is None else (NOW - timedelta(minutes=minutes)).isoformat()
    here.cluster.change_node(
        NODE,
        labels={**here.node.labels, **labels},
        label_writes={name: LabelWrite("nvidia-mig-manager", time) for name in labels},
    )
    if manager is not None:
        fields = {"labels": {"app": "nvidia-mig-manager"}, "namespace": "gpu-operator", **manager}
        here.cluster.add_pod(pod("mig-manager-1", **fields))
    return here


def found(here: World) -> list[MigChange]:
    return mig_changes(here.cluster, [NODE], NOW)


@cases(
    "labels, state, paused",
    {
        "pending with paused operands": (LEFT, "pending", (PLUGIN, GFD)),
        "rebooting": ({STATE: "rebooting"}, "rebooting", ()),
        "ended with operands still paused": ({STATE: "failed", PLUGIN: PAUSED}, "failed", (PLUGIN,)),
        "paused without a state": ({PLUGIN: PAUSED}, None, (PLUGIN,)),
    },
)
def test_abandoned_mig_change_is_recognised(labels, state, paused):
    [change] = found(world(labels))
    assert (change.state, change.paused, change.at_work) == (state, paused, False)


@cases(
    "labels",
    {
        "no operator": {},
        "success": {STATE: "success", PLUGIN: "true"},
        "failed, and cleaned up": {STATE: "failed", PLUGIN: "true"},
        "switched off": {PLUGIN: "false"},
        "paused for something else": {PLUGIN: "paused-for-driver-upgrade"},
    },
)
def test_these_labels_mean_no_mig_change_is_in_progress(labels):
    assert found(world(labels)) == []


@pytest.mark.parametrize(
    ("minutes", "manager", "at_work"),
    [
        pytest.param(4, None, True, id="no manager, for less time than its pod takes to come back"),
        pytest.param(6, None, False, id="no manager any more"),
        pytest.param(29, {}, True, id="a manager, for less than its longest change"),
        pytest.param(31, {}, False, id="a manager that has given up"),
        pytest.param(31, {"phase": "Failed"}, False, id="a manager that has failed"),
        pytest.param(6, {"deleting": True}, False, id="a manager that is being deleted"),
        pytest.param(6, {"labels": {"app": "other"}}, False, id="another pod"),
        pytest.param(None, {}, True, id="a manager, and nothing says since when"),
        pytest.param(None, None, False, id="no manager, and nothing says since when"),
    ],
)
def test_mig_manager_at_work_by_pod_and_label_age(minutes, manager, at_work):
    [change] = found(world(LEFT, minutes, manager=manager))
    assert change.at_work is at_work


def test_node_in_our_rollout_counts_as_at_work():
    here = world(LEFT)
    write_record(here.cluster, here.node)
    [change] = found(here)
    assert change.at_work


def test_evidence_names_the_state_the_writer_and_the_time():
    [change] = found(world(LEFT, 61, manager={}))
    assert change.evidence == (
        f"{STATE} is pending",
        "paused: device-plugin, gpu-feature-discovery",
        "written 61 minutes ago by nvidia-mig-manager",
        "gpu-operator/mig-manager-1 runs",
    )


def test_latest_label_write_decides_whether_manager_works():
    here = world(LEFT)
    writes = {**here.node.label_writes, GFD: LabelWrite("kubectl", (NOW - timedelta(minutes=1)).isoformat())}
    here.cluster.change_node(NODE, label_writes=writes)
    [change] = found(here)
    assert change.at_work
    assert "written 1 minutes ago by kubectl" in change.evidence


def test_repair_leaves_the_labels_of_a_failed_mig_manager():
    here = world(LEFT)
    others = {name: value for name, value in here.node.labels.items() if name not in LEFT}
    repair_labels(here.cluster, NODE, NOW)
    assert here.node.labels == {
        **others,
        STATE: "failed",
        PLUGIN: "true",
        GFD: "true",
        "nvidia.com/gpu.deploy.dcgm": "false",
    }
    assert found(here) == []
    assert repair_labels(here.cluster, NODE, NOW) is None


def test_success_state_label_is_kept():
    here = world({STATE: "success", PLUGIN: PAUSED})
    repair_labels(here.cluster, NODE, NOW)
    assert (here.node.labels[STATE], here.node.labels[PLUGIN]) == ("success", "true")


def test_labels_are_not_repaired_while_mig_manager_may_be_at_work():
    here = world(LEFT, 3)
    with pytest.raises(NumaforgeError, match=rf"{NODE}: a MIG manager may be at work: {STATE} is pending"):
        repair_labels(here.cluster, NODE, NOW)
    assert here.cluster.calls["patch_node"] == 0


def test_conflicting_label_change_is_reread():
    here = world(LEFT)
    conflicts = iter([True])

    def fault(call: str) -> Exception | None:
        if call == "patch_node" and next(conflicts, False):
            here.cluster.change_node(
                NODE, labels={**here.node.labels, STATE: "success", PLUGIN: "true", GFD: "true"}
            )
            return ConflictError("modified")
        return None

    here.cluster.fault = fault
    assert repair_labels(here.cluster, NODE, NOW) is None
    assert here.node.labels[STATE] == "success"


def test_all_nodes_are_checked_by_default():
    here = world(LEFT)
    assert [change.node for change in mig_changes(here.cluster, [], NOW)] == [NODE]


def test_label_writer_is_read_from_managed_fields():
    fields = {"f:metadata": {"f:labels": {".": {}, f"f:{STATE}": {}, "f:zone": {}}}}
    document = {
        "metadata": {
            "name": "n1",
            "uid": "u",
            "resourceVersion": "1",
            "managedFields": [
                {"manager": "kubelet", "time": "2026-11-22T11:00:00Z", "fieldsV1": {"f:status": {}}},
                {"manager": "nvidia-mig-manager", "time": "2026-11-22T11:30:00Z", "fieldsV1": fields},
            ],
        }
    }
    assert objects.node(document).label_writes == {
        STATE: LabelWrite("nvidia-mig-manager", "2026-11-22T11:30:00Z")
    }
