"""Labels and resources of a geometry: set within the drain, proved, and put back where the node goes back."""

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.planning import node_labels as labels_of_plan
from numaforge.rollout.cluster import ApiUnreachableError, ClusterNode
from numaforge.rollout.gate import Expected, GateSettings
from numaforge.rollout.labels import OURS, Labels, SetLabels, kept, noted, settled, to_put_back, to_set
from numaforge.rollout.record import Ending, Phase
from tests.fixtures.memory_machine import NEW, OFFERED, OLD, PLANNED
from tests.fixtures.node_records import request_abort
from tests.fixtures.rollout_world import NODE, World
from tests.fixtures.tables import cases

CONFIG, MIG = "nvidia.com/device-plugin.config", "numaforge.io/mig"
OPERATOR, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
WANTED = {CONFIG: "small", MIG: "mig-enabled"}
CUT = {**PLANNED, "nvidia.com/mig-1g.10gb": "56"}
OF_NFD = {"nfd.node.kubernetes.io/feature-labels": f"nvidia.com/gpu.count,{CONFIG}"}
ANN, BOB = "ann@a/boot/1.1", "bob@b/boot/2.2"


def node(labels: dict[str, str], annotations: dict[str, str] | None = None) -> ClusterNode:
    return ClusterNode("n1", "uid", "1", labels=labels, annotations=annotations or {})


@cases(
    "there, annotations, wanted, changes",
    {
        "one that is missing": ({}, {}, {MIG: "mig-enabled"}, {MIG: "mig-enabled"}),
        "one that is there": ({MIG: "mig-enabled"}, {}, {MIG: "mig-enabled"}, {}),
        "one that is to go": ({MIG: "mig-enabled"}, {}, {MIG: None}, {MIG: None}),
        "one that is gone": ({}, {}, {MIG: None}, {}),
        "others are left alone": ({MIG: "a", "other": "b"}, {}, {MIG: "c"}, {MIG: "c"}),
        "those of node-feature-discovery too": ({CONFIG: "a"}, OF_NFD, {CONFIG: "b"}, {}),
        "what the MIG manager said of another configuration goes": (
            {OPERATOR: "old", STATE: "success"},
            {},
            {OPERATOR: "new"},
            {OPERATOR: "new", STATE: None},
        ),
        "what it said of this one stays": ({OPERATOR: "new", STATE: "success"}, {}, {OPERATOR: "new"}, {}),
    },
)
def test_label_changes_to_reach_the_plan(there, annotations, wanted, changes):
    found = node(there, annotations)
    assert to_set(found, wanted, {}) == changes


def test_previous_label_values_are_put_back():
    before = {CONFIG: "big", OPERATOR: "old", "other": "stays"}
    wanted = {**WANTED, OPERATOR: "new"}
    found = node({**before, STATE: "success"})
    remembered = kept(found, to_set(found, wanted, {}))
    changed = node({**before, **wanted, STATE: "success"})
    assert to_put_back(changed, remembered) == {CONFIG: "big", MIG: None, OPERATOR: "old", STATE: None}
    assert to_put_back(node(before), remembered) == {}


def world(wanted: Labels = WANTED, **machine: object) -> World:
    made = World()
    made.machine.wanted = Expected(NEW, PLANNED, labels=wanted)
    for name, value in machine.items():
        setattr(made.machine, name, value)
    return made


def as_planned() -> World:
    """Return a world whose node lacks only the labels, and runs with what is planned."""
    here = world(files=NEW)
    here.cluster.start_kubelet(NODE, config=NEW, allocatable={**OFFERED, **PLANNED}, ready_after=0.0)
    return here


def labels(of: World) -> dict[str, str]:
    return {name: value for name, value in of.node.labels.items() if "nvidia.com" in name or name == MIG}


def test_a_changed_node_gets_its_labels():
    here = world()
    assert here.run().ending is Ending.DONE
    assert labels(here) == WANTED


def test_labels_are_set_only_after_the_node_is_changed():
    here = world()
    here.begin()
    here.reach(Phase.APPLYING)
    assert labels(here) == {}
    here.reach(Phase.APPLIED)
    assert labels(here) == WANTED


@cases(
    "trouble",
    {
        "not proved": {"gpus": "7"},
        "not verified": {"verification": ("CPU 3 is not isolated",)},
        "undone on the node itself": {"does_not_start": True},
        "refused by the node": {"refused": "full"},
    },
)
def test_rollback_restores_previous_labels(trouble):
    here = world()
    here.cluster.change_node(NODE, labels={**here.node.labels, CONFIG: "big"})
    here.trouble(**trouble)
    assert here.run().ending in (Ending.ROLLED_BACK, Ending.BLOCKED)
    assert labels(here) == {CONFIG: "big"}


def test_abort_restores_previous_labels():
    here = world()
    task = here.begin()
    here.reach(Phase.APPLIED)
    request_abort(here.cluster, NODE)
    assert here.end(task).ending is Ending.ABORTED
    assert labels(here) == {}


def test_rollback_after_two_changes_restores_first_labels():
    here = world()
    here.cluster.change_node(NODE, labels={**here.node.labels, CONFIG: "big"})
    task = here.begin(ANN)
    here.reach(Phase.APPLIED)
    task.kill()
    here.time.run(1.0)
    here.machine.files = OLD  # by hand, so that a resume changes it again
    here.trouble(gpus="7")
    assert here.run(BOB).ending is Ending.ROLLED_BACK
    assert labels(here) == {CONFIG: "big"}


def test_label_change_drains_node_without_restart():
    here = as_planned()
    task = here.begin()
    here.reach(Phase.CORDONED)
    assert here.node.unschedulable
    assert here.end(task).ending is Ending.DONE
    assert (labels(here), here.machine.applied) == (WANTED, [])


def test_node_with_planned_labels_is_not_touched():
    here = world(files=NEW)
    here.cluster.change_node(NODE, labels={**here.node.labels, **WANTED})
    assert here.run().ending is Ending.UNCHANGED
    assert here.cluster.calls["patch_node"] == 0


def test_label_only_change_is_undone_when_proof_fails():
    here = as_planned()
    task = here.begin()
    here.reach(Phase.APPLIED)
    here.cluster.change_node(NODE, allocatable={**here.node.allocatable, "nvidia.com/gpu": "7"})
    here.reach(Phase.UNDOING)
    here.cluster.change_node(NODE, allocatable={**here.node.allocatable, "nvidia.com/gpu": "8"})
    assert here.end(task).ending is Ending.ROLLED_BACK
    assert labels(here) == {}


@pytest.mark.parametrize(
    ("resource", "afterwards", "ending"),
    [
        pytest.param("cpu", "59", Ending.HELD, id="cpu"),
        pytest.param("memory", "500Gi", Ending.HELD, id="memory"),
        pytest.param("memory", str(512 * 2**30 - 2**20), Ending.ROLLED_BACK, id="memory-of-another-boot"),
        pytest.param("hugepages-2Mi", "128Mi", Ending.HELD, id="pages"),
        pytest.param("ephemeral-storage", "1Gi", Ending.ROLLED_BACK, id="not-storage"),
    ],
)
def test_rolled_back_node_must_offer_previous_resources(resource, afterwards, ending):
    here = as_planned()
    before = {**here.node.allocatable, "hugepages-2Mi": "256Mi", "ephemeral-storage": "9Gi"}
    here.cluster.change_node(NODE, allocatable=before, capacity={"memory": "520Gi"})
    task = here.begin()
    here.reach(Phase.APPLIED)
    here.cluster.change_node(NODE, allocatable={**before, "nvidia.com/gpu": "7"})
    here.reach(Phase.UNDOING)
    boot = {"memory": str(520 * 2**30 - 2**20)}
    here.cluster.change_node(NODE, allocatable={**before, resource: afterwards}, capacity=boot)
    outcome = here.end(task)
    assert outcome.ending is ending, outcome
    assert (
        ending is Ending.ROLLED_BACK or f"with the old configuration Allocatable {resource}" in outcome.reason
    )


def test_label_reverted_by_another_tool_is_a_mismatch():
    here = world()

    def change_back(_: object, now: ClusterNode | None) -> None:
        if now is not None and now.labels.get(MIG) == "mig-enabled":
            here.cluster.later(
                1.0, lambda: here.cluster.change_node(NODE, labels={**now.labels, MIG: "other"})
            )

    here.cluster.watchers.append(change_back)
    outcome = here.run(gate=GateSettings(20.0, 5.0))
    assert outcome.ending is Ending.ROLLED_BACK
    assert f"the label {MIG}: predicted mig-enabled, found other" in outcome.reason


def test_nfd_label_is_waited_for_not_written():
    here = world({CONFIG: "small"})
    here.cluster.change_node(NODE, annotations=OF_NFD)
    task = here.begin()
    here.reach(Phase.APPLIED)
    assert labels(here) == {}
    here.cluster.change_node(NODE, labels={**here.node.labels, CONFIG: "small"})
    assert here.end(task).ending is Ending.DONE


WRITES = ("patch_node", "put_lease")


def die_at_write(here, task, chosen):
    """Kill the runner at this write of the Node or its record, and wait until its Lease is over."""
    seen = iter(range(1000))

    def fault(call: str) -> Exception | None:
        if call in WRITES and next(seen) == chosen:
            task.kill()
        return None

    here.cluster.fault = fault
    here.time.run(lambda: task.ended)
    here.cluster.fault = None
    here.time.run(90.0)


@pytest.mark.parametrize("chosen", range(24))
def test_next_runner_restores_labels_after_death_at_any_write(chosen):
    here = world()
    here.trouble(gpus="7")
    task = here.begin(ANN)
    die_at_write(here, task, chosen)
    assert here.run(BOB).ending in (Ending.ROLLED_BACK, Ending.BLOCKED)
    assert (labels(here), here.record) == ({}, None)


@pytest.mark.parametrize("chosen", range(24))
def test_lost_answer_at_any_write_loses_no_label(chosen):
    here = world()
    here.cluster.change_node(NODE, labels={**here.node.labels, CONFIG: "big"})
    seen = iter(range(1000))
    here.cluster.fault = lambda call: (
        ApiUnreachableError("reset") if call in WRITES and next(seen) == chosen else None
    )
    task = here.begin()
    here.reach(Phase.APPLIED)
    record = here.record
    assert record.labels == {CONFIG: "big", MIG: None}
    assert here.end(task).ending is Ending.DONE
    assert labels(here) == WANTED


# ---- labels that are not wanted any more ----


def labelled(before: Labels = MappingProxyType({CONFIG: "big"})) -> World:
    """Return a world whose node had these labels, and now has what was wanted of it."""
    here = world()
    here.cluster.change_node(NODE, labels={**here.node.labels, **before})
    assert here.run().ending is Ending.DONE
    return here


def test_unwanted_labels_are_put_back_in_a_drain_and_leave_no_record():
    here = labelled()
    assert labels(here) == WANTED
    here.machine.wanted = Expected(NEW, PLANNED, labels={})
    task = here.begin()
    here.reach(Phase.APPLIED)
    assert here.node.unschedulable
    assert here.end(task).ending is Ending.DONE
    assert (labels(here), here.ended.set_labels) == ({CONFIG: "big"}, {})
    assert here.run().ending is Ending.UNCHANGED


def test_run_without_label_changes_leaves_labels():
    here = labelled()
    here.machine.wanted = Expected(NEW, PLANNED)
    assert here.run().ending is Ending.UNCHANGED
    assert labels(here) == WANTED


def test_label_changed_by_another_tool_is_left_alone():
    here = labelled()
    here.cluster.change_node(NODE, labels={**here.node.labels, CONFIG: "by hand"})
    here.machine.wanted = Expected(NEW, PLANNED, labels={})
    assert here.run().ending is Ending.DONE
    assert (labels(here), here.ended.set_labels) == ({CONFIG: "by hand"}, {})


def test_removed_labels_are_restored_on_rollback():
    here = labelled()
    noted_before = here.ended.set_labels
    here.machine.wanted = Expected(NEW, {"cpu": "1"}, labels={})
    assert here.run().ending is Ending.ROLLED_BACK
    assert (labels(here), here.ended.set_labels) == (WANTED, noted_before)
    here.machine.wanted = Expected(NEW, PLANNED, labels={})
    assert here.run().ending is Ending.DONE
    assert labels(here) == {CONFIG: "big"}


@pytest.mark.parametrize("chosen", range(16))
def test_runner_killed_while_restoring_labels_loses_none(chosen):
    here = labelled()
    here.machine.wanted = Expected(NEW, PLANNED, labels={})
    task = here.begin(ANN)
    die_at_write(here, task, chosen)
    here.run(BOB)
    assert (labels(here), here.ended.set_labels) == ({CONFIG: "big"}, {})


@pytest.mark.parametrize("gone", [{CONFIG: "big"}, {}], ids=["to another configuration", "to none"])
def test_gpus_may_be_advertised_differently_once_labels_are_put_back(gone):
    here = labelled(gone)
    here.machine.wanted = Expected(NEW, PLANNED, labels={})

    def follow(_: object, now: ClusterNode | None) -> None:
        if now and now.labels.get(CONFIG) != "small" and now.allocatable.get("nvidia.com/gpu") == "8":
            allocatable = {**now.allocatable, "nvidia.com/gpu": "32"}
            here.cluster.later(1.0, lambda: here.cluster.change_node(NODE, allocatable=allocatable))

    here.cluster.watchers.append(follow)
    assert here.run().ending is Ending.DONE
    assert here.node.allocatable["nvidia.com/gpu"] == "32"


def test_rollback_waits_for_unrelated_resources_to_return():
    here = labelled()
    offered = {**here.node.allocatable, "rdma/hca": "8"}
    here.cluster.change_node(NODE, allocatable=offered)
    here.machine.wanted = Expected(NEW, PLANNED, labels={})
    task = here.begin()
    here.reach(Phase.APPLIED)
    here.cluster.change_node(NODE, allocatable={**offered, "rdma/hca": "1"})
    here.reach(Phase.UNDOING)
    here.cluster.change_node(NODE, allocatable=offered)
    assert here.end(task).ending is Ending.ROLLED_BACK


def test_every_plannable_label_is_owned_by_numaforge():
    assert {*labels_of_plan.REASONS} == OURS


WISHES = st.dictionaries(st.sampled_from(sorted(OURS)), st.sampled_from("abc"))


@given(before=WISHES, turns=st.lists(st.tuples(WISHES, st.booleans())))
def test_original_labels_return_after_any_sequence_of_rollouts(before, turns):
    found = node(before)
    known: SetLabels = {}
    for wanted, proves in [*turns, ({}, True)]:
        changes = to_set(found, wanted, known)
        remembered = kept(found, changes)
        found, known = patched(found, changes, known)
        if not proves:
            found, known = patched(found, to_put_back(found, remembered), known)
        known = settled(found, known)
    assert (dict(found.labels), known) == (before, {})


def patched(found: ClusterNode, changes: Labels, known: SetLabels) -> tuple[ClusterNode, SetLabels]:
    return replace(found, labels=merged(found.labels, changes)), noted(found, changes, known)


def merged(there: Labels, changes: Labels) -> dict[str, str]:
    return {name: value for name, value in {**there, **changes}.items() if value is not None}


# ---- the GPU operator's MIG manager ----


def manager(here: World, *, fails: bool = False, restarts: bool = False) -> None:
    """Have a MIG manager follow the label of its configuration, as mig-parted's reconfigure.go does."""

    def state(value: str) -> None:
        if value == "success" and restarts:
            here.machine.restart()
        here.cluster.change_node(NODE, labels={**here.node.labels, STATE: value})

    def follow(old: ClusterNode | None, now: ClusterNode | None) -> None:
        if old and now and old.labels.get(OPERATOR) != now.labels.get(OPERATOR):
            wrong = fails and now.labels.get(OPERATOR) == "new"
            here.cluster.later(1.0, lambda: state("pending"))
            here.cluster.later(40.0, lambda: state("failed" if wrong else "success"))

    here.cluster.watchers.append(follow)


@pytest.mark.parametrize("restarts", [False, True], ids=["alone", "and restarts the kubelet"])
def test_the_proof_waits_for_the_mig_manager(restarts):
    here = world({OPERATOR: "new"})
    here.cluster.change_node(NODE, labels={**here.node.labels, OPERATOR: "old", STATE: "success"})
    manager(here, restarts=restarts)
    for wanted, label in ((here.machine.wanted, "new"), (Expected(NEW, PLANNED, labels={}), "old")):
        here.told.clear()
        here.machine.wanted = wanted
        assert here.run().ending is Ending.DONE
        assert labels(here) == {OPERATOR: label, STATE: "success"}
        waited = [line for progress in here.told for line in progress.waits_for if STATE in line]
        assert any("found pending" in line for line in waited)


@cases("there, said", {"it fails": (True, "failed"), "there is none": (False, "no such label")})
def test_unsuccessful_mig_manager_is_rolled_back(there, said):
    here = world({OPERATOR: "new"})
    before = {OPERATOR: "old", STATE: "success"} if there else {}
    here.cluster.change_node(NODE, labels={**here.node.labels, **before})
    if there:
        manager(here, fails=True)
    outcome = here.run()
    assert outcome.ending is Ending.ROLLED_BACK
    assert f"the label {STATE}: predicted success, found {said}" in outcome.reason
    assert labels(here) == before


def test_proof_does_not_wait_for_the_mig_manager_without_an_old_label():
    here = world({OPERATOR: "new"})
    manager(here)
    assert here.run().ending is Ending.DONE
    here.machine.wanted = Expected(NEW, PLANNED, labels={})
    here.cluster.watchers.clear()
    assert here.run().ending is Ending.DONE
    assert labels(here) == {}


# ---- resources ----


def cut(**offers: str) -> World:
    """Return a world whose node is to advertise 56 MIG devices and no GPU, and advertises this beside."""
    here = World()
    here.machine.wanted = Expected(NEW, CUT, all_gpus=True)
    here.trouble(
        gpus="0",
        offers={"nvidia.com/mig-1g.10gb": "56", **{k.replace("_", "/"): v for k, v in offers.items()}},
    )
    return here


def pooled(**offers: str) -> World:
    """Return a world whose node is to advertise a pool in place of rdma/hca, and advertises this beside."""
    here = World()
    here.machine.wanted = Expected(NEW, {"rdma/rail0": "63"}, prefixes=("rdma/",))
    here.trouble(offers={"rdma/rail0": "63", **{name.replace("_", "/"): n for name, n in offers.items()}})
    return here


STALE = {"nvidia.com_mig-3g.40gb": "2"}


@cases(
    "here, undesired",
    {
        "the earlier geometry is not required": (cut(), None),
        "a pool that was, without tokens": (pooled(rdma_hca="0"), None),
        "a geometry that is still advertised": (
            cut(**STALE),
            "nvidia.com/mig-3g.40gb: predicted not advertised, found 2",
        ),
        "a pool that is still advertised": (
            pooled(rdma_hca="63"),
            "rdma/hca: predicted not advertised, found 63",
        ),
    },
)
def test_stale_resource_rolls_back_while_advertised(here, undesired):
    outcome = here.run()
    assert outcome.ending is (Ending.ROLLED_BACK if undesired else Ending.DONE)
    assert undesired is None or f"Allocatable {undesired}" in outcome.reason


def test_stale_resource_name_with_no_devices_is_reported_and_passes():
    here = cut()
    here.run()
    [told] = [event for event in here.cluster.events if event.reason == "StaleResources"]
    assert told.message == "of an earlier geometry, with 0 devices: nvidia.com/gpu"
    assert not told.warning


def test_geometry_outside_a_partial_plan_is_left_alone():
    here = cut(**{"nvidia.com_mig-3g.40gb": "2"})
    here.machine.wanted = replace(here.machine.wanted, all_gpus=False)
    here.trouble(gpus="8", offers={"nvidia.com/mig-1g.10gb": "56", "nvidia.com/mig-3g.40gb": "2"})
    assert here.run().ending is Ending.DONE


def test_label_of_an_earlier_plan_is_removed():
    here = world({MIG: None})
    here.cluster.change_node(NODE, labels={**here.node.labels, MIG: "mig-enabled"})
    assert here.run().ending is Ending.DONE
    assert labels(here) == {}
