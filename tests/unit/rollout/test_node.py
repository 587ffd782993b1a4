"""The roll-out of one node: what goes wrong, who interferes, and who goes on."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.node.part import Part
from numaforge.node.pods import Pods
from numaforge.node.work import OtherWork
from numaforge.roles.device_owners import DRA_DRIVER, MIG_MANAGER
from numaforge.rollout.cluster import (
    ApiUnreachableError,
    ClusterError,
    ConflictError,
    DisruptionBudget,
    ForbiddenError,
    NotFoundError,
    Owner,
)
from numaforge.rollout.drain import DrainSettings
from numaforge.rollout.gate import Expected, GateSettings
from numaforge.rollout.machine import Identity
from numaforge.rollout.record import ABORT, Ending, Phase, lease_name
from tests.fixtures.memory_machine import CONFIRM_SECONDS, HALF, NEW, OLD, Reboot
from tests.fixtures.node_records import request_abort, write_record
from tests.fixtures.rollout_world import NODE, SETTINGS, World, pod
from tests.fixtures.tables import cases
from tests.fixtures.virtual_time import Killed, Task

ANN, BOB = "ann@a/boot/1.1", "bob@b/boot/2.2"
DRIVER_UPGRADE = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}


def free(world: World) -> bool:
    """Say whether the node is in service, and nothing of a roll-out is left with it."""
    return not world.node.unschedulable and world.record is None and not world.slots()


def test_change_ends_as_planned_and_releases_everything(world):
    outcome = world.run()
    assert (outcome.ending, world.machine.files, free(world)) == (Ending.DONE, NEW, True)
    assert world.events() == ["Cordoned", "NodeChanged", "Uncordoned"]
    assert len(world.machine.applied) == 1


@pytest.mark.parametrize(("fixed", "ending"), [(True, Ending.BLOCKED), (False, Ending.DONE)])
def test_mig_geometry_is_refused_under_dra_dynamic_mig(world, fixed, ending):
    world.cluster.cut_by_driver.add(NODE)
    world.machine.wanted = replace(
        world.machine.wanted, devices=frozenset({DRA_DRIVER.devices} if fixed else ())
    )
    outcome = world.run()
    assert (outcome.ending, free(world)) == (ending, True)
    if fixed:
        assert "mig.managed_by: dra-driver" in outcome.reason
        assert (world.machine.files, world.cluster.calls["patch_node"]) == (OLD, 0)


def test_mig_manager_appearing_during_drain_blocks_the_change(world):
    world.machine.wanted = replace(world.machine.wanted, devices=frozenset({MIG_MANAGER.devices}))
    task = world.begin()
    world.reach(Phase.CORDONED)
    world.cluster.change_node(NODE, labels={**world.node.labels, "nvidia.com/mig.config": "all-disabled"})
    manager = Owner("DaemonSet", "nvidia-mig-manager", "uid-manager")
    world.cluster.add_pod(pod("manager", labels=MIG_MANAGER.pod, owner=manager))
    outcome = world.end(task)
    assert (outcome.ending, world.machine.files, world.machine.applied) == (Ending.BLOCKED, OLD, [])
    assert "the GPU operator's MIG manager cuts the node's GPUs" in outcome.reason


def test_slow_node_is_held_cordoned_until_a_new_measurement_passes(world):
    world.machine.slow = ("memory read of NUMA node 0: 100 MB/s, where 3 siblings have 1000",)
    held = world.run()
    assert (held.ending, world.phase, world.node.unschedulable) == (Ending.HELD, Phase.HELD, True)
    assert "where 3 siblings have 1000" in held.reason
    assert world.machine.files == NEW
    world.machine.slow = ()
    assert (world.run().ending, free(world)) == (Ending.DONE, True)
    assert len(world.machine.applied) == 1


def test_slow_node_stays_held_while_nothing_changes(world):
    world.machine.slow = ("it was not measured",)
    assert [world.run().ending, world.run().ending] == [Ending.HELD, Ending.HELD]


@pytest.mark.parametrize("seen", [None, ""], ids=["of itself", "by its run"])
def test_fresh_survey_is_not_repeated_before_slot(seen):
    world, asked = World(), []
    world.unreadable = seen
    world.machine.fault = asked.append  # each call twice
    task = world.begin()
    world.reach(Phase.CORDONED)
    assert (asked.count("change"), asked.count("running_config")) == ((4, 1) if seen is None else (2, 0))
    assert (world.end(task).ending, free(world)) == (Ending.DONE, True)


def test_node_changed_since_last_seen_is_not_touched(world):
    world.unreadable = ""
    world.machine.files = NEW
    assert (world.run().ending, world.cluster.calls["patch_node"]) == (Ending.UNCHANGED, 0)
    assert world.slots() == []


def test_node_with_unreadable_configz_is_refused_before_cordon(world):
    world.unreadable = "the kubelet refuses it to its own node (403)"
    world.cluster.denied.add("get nodes/proxy")
    with pytest.raises(ClusterError, match=r"refuses it to its own node \(403\)"):
        world.run()
    assert (world.machine.files, world.node.unschedulable, world.slots()) == (OLD, False, [])


def test_node_as_planned_is_not_touched(world):
    world.machine.files = NEW
    assert world.run().ending is Ending.UNCHANGED
    assert (world.cluster.calls["patch_node"], world.cluster.calls["put_lease"]) == (0, 0)


@cases(
    "trouble, ending, said",
    {
        "a full disk changes nothing": ({"refused": "no space left"}, Ending.BLOCKED, "no space left"),
        "a kubelet that does not start is undone on the node": (
            {"does_not_start": True},
            Ending.ROLLED_BACK,
            "ended by itself",
        ),
        "a kubelet that dies during the proof is undone": (
            {"dies_after": 10.0},
            Ending.ROLLED_BACK,
            "it ended by itself and was restarted",
        ),
        "a GPU that is missing afterwards undoes the change": (
            {"gpus": "7"},
            Ending.ROLLED_BACK,
            "nvidia.com/gpu: predicted 8, found 7",
        ),
        "a kubelet that runs something else undoes the change": (
            {"configz": {"cpuManagerPolicy": "none"}},
            Ending.ROLLED_BACK,
            "cpuManagerPolicy: predicted 'static', found 'none'",
        ),
        "a failed verification undoes the change": (
            {"verification": ("CPU 3 is not isolated",)},
            Ending.ROLLED_BACK,
            "CPU 3 is not isolated",
        ),
        "a node that becomes Ready with neither is held": (
            {"ready_after": 500.0},
            Ending.HELD,
            "Ready condition",
        ),
        "Ready that flaps at first only takes longer": ({"flaps": 2}, Ending.DONE, ""),
        "a transaction that was broken off is settled": (
            {"broken_off": True},
            Ending.ROLLED_BACK,
            "broken off",
        ),
    },
)
def test_change_ending_by_node_trouble(world, trouble, ending, said):
    world.trouble(**trouble)
    outcome = world.run()
    assert (outcome.ending, world.machine.files) == (ending, NEW if ending is Ending.DONE else OLD)
    assert said in outcome.reason
    assert free(world) == (ending is not Ending.HELD)


# The node reboots while it is proved or verified.


def verifying(world: World) -> Task:
    """Begin a roll-out, and let it go on until the node's verification has been under way for a while."""
    task = world.begin()
    world.time.run(lambda: bool(world.told) and world.told[-1].phase == "verifies")
    world.time.run(2.0)
    return task


def proofs(world: World) -> int:
    """Return how often the suite was begun after a proof."""
    told = [progress.phase for progress in world.told]
    return sum(pair == ("proves", "verifies") for pair in itertools.pairwise(told))


@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "a power cut"])
def test_node_that_reboots_while_verifying_is_proved_and_verified_again(world, in_order):
    task = verifying(world)
    world.machine.reboot(Reboot(in_order=in_order))
    assert world.end(task).ending is Ending.DONE
    assert (world.machine.files, free(world), proofs(world)) == (NEW, True, 2)
    proved_after = world.machine.verified_at - world.machine.running_since
    assert proved_after >= SETTINGS.gate.stable_seconds


def test_suite_results_of_a_node_that_goes_down_are_void(world):
    task = verifying(world)
    world.machine.reboot(Reboot(stops_after=1.0, stopping=60.0))
    assert world.end(task).ending is Ending.DONE


def test_fault_persisting_after_reboot_undoes_the_change(world):
    task = verifying(world)
    world.trouble(verification=("CPU 3 is not isolated",))
    world.machine.reboot()
    outcome = world.end(task)
    assert (outcome.ending, world.machine.files, proofs(world)) == (Ending.ROLLED_BACK, OLD, 2)
    assert "CPU 3 is not isolated" in outcome.reason


def test_kubelet_exit_during_verification_undoes_the_change(world):
    task = verifying(world)
    world.machine.restart()
    outcome = world.end(task)
    assert outcome.ending is Ending.ROLLED_BACK
    assert "it ended by itself and was restarted" in outcome.reason


@pytest.mark.parametrize("again", ["proves", "verifies"])
def test_second_reboot_before_service_rolls_back(world, again):
    task = verifying(world)
    world.machine.reboot(Reboot(in_order=False))
    world.time.run(lambda: world.told[-1].phase == "proves")
    world.time.run(lambda: world.told[-1].phase == again and not world.told[-1].waits_for)
    world.machine.reboot(Reboot(in_order=False))
    outcome = world.end(task)
    assert outcome.ending is Ending.ROLLED_BACK
    assert "it rebooted again" in outcome.reason


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param({"does_not_start": True, "cannot_go_back": True}, id="the node's own undoing fails"),
        pytest.param({"gpus": "7", "cannot_go_back": True}, id="reverting fails"),
        pytest.param({"gpus": "7", "broken_gpu": True}, id="the old state cannot be proved"),
    ],
)
def test_failed_undo_holds_the_node_cordoned_with_its_slot(world, trouble):
    world.trouble(**trouble)
    assert world.run().ending is Ending.HELD
    assert (world.phase, world.node.unschedulable, world.slots()) == (Phase.HELD, True, [NODE])
    assert "RolloutHeld" in world.events()


def test_held_node_is_released_after_a_person_has_fixed_it(world):
    world.trouble(gpus="7", broken_gpu=True)
    world.run()
    world.cluster.change_node(NODE, allocatable={**world.node.allocatable, "nvidia.com/gpu": "8"})
    outcome = world.run()
    assert (outcome.ending, world.machine.files, free(world)) == (Ending.ROLLED_BACK, OLD, True)


# What is refused before anything is touched.


def untouched(world: World) -> bool:
    return world.machine.files == OLD and not world.slots() and world.record is None


@cases(
    "state, said",
    {
        "somebody else's cordon": ({"unschedulable": True}, "node was cordoned before"),
        "a node that is not Ready": ({"ready": False, "ready_message": "PLEG"}, "not Ready: PLEG"),
        "somebody else's maintenance": ({"labels": DRIVER_UPGRADE}, "upgrades its driver"),
    },
)
def test_unavailable_node_is_refused_with_the_reason(world, state, said):
    world.cluster.change_node(NODE, **state)
    outcome = world.run()
    assert (outcome.ending, said in outcome.reason, untouched(world)) == (Ending.BLOCKED, True, True)


TWINS = {"machine_id": "m-1", "boot_id": "b-1", "system_uuid": "U-1"}


@cases(
    "host, field, of_host, of_node",
    {
        "another cluster's node of this name": (("b-2", "m-2", "u-2"), "system UUID", "u-2", "U-1"),
        "a system UUID that the host does not say": (("b-2", "m-2", None), "machine ID", "m-2", "m-1"),
        "a clone, or a reboot that is not reported yet": (
            ("b-2", "m-1", "u-1"),
            "boot ID",
            "b-2",
            "b-1: wait until its kubelet has reported",
        ),
        "a boot ID that is not known": ((None, "m-1", "u-1"), "boot ID", "unknown", "b-1"),
    },
)
def test_host_other_than_the_node_is_refused_before_cordon(world, host, field, of_host, of_node):
    world.cluster.change_node(NODE, **TWINS)
    world.machine.identity = lambda: Identity(*host)
    outcome = world.run()
    assert (outcome.ending, untouched(world)) == (Ending.BLOCKED, True)
    assert f"the {field} of the host is {of_host}, and of the node {of_node}" in outcome.reason
    assert (world.cluster.calls["patch_node"], world.cluster.calls["put_lease"]) == (0, 0)


@cases(
    "host",
    {"whatever the case": Identity("B-1", "M-1", "u-1"), "a boot ID is enough": Identity("b-1", None, None)},
)
def test_host_matching_its_node_is_changed(world, host):
    world.cluster.change_node(NODE, **TWINS)
    world.machine.identity = lambda: host
    assert world.run().ending is Ending.DONE


def test_host_identity_is_checked_at_the_time_of_the_cordon(world):
    task = world.begin(maintenance_timeout=600.0)
    world.cluster.change_node(NODE, labels=DRIVER_UPGRADE)
    world.time.run(20.0)
    world.cluster.change_node(NODE, labels={}, boot_id="rebooted")
    outcome = world.end(task)
    assert (outcome.ending, "rebooted" in outcome.reason, untouched(world)) == (Ending.BLOCKED, True, True)


@pytest.mark.parametrize(
    ("phase", "differs", "ending"),
    [
        (Phase.CORDONED, "boot_id", Ending.HELD),
        (Phase.APPLYING, "boot_id", Ending.DONE),
        (Phase.APPLIED, "boot_id", Ending.DONE),
        (Phase.CORDONED, "machine_id", Ending.HELD),
        (Phase.APPLYING, "machine_id", Ending.HELD),
        (Phase.APPLIED, "system_uuid", Ending.HELD),
    ],
)
def test_resume_accepts_new_boot_id_only_after_change_began(world, phase, differs, ending):
    world.cluster.shutdown_seconds = 20.0
    task = world.begin(ANN)
    world.reach(phase)
    task.kill()
    reported = world.node.boot_id
    world.cluster.change_node(NODE, **{differs: "another"})
    if differs == "boot_id":  # the kubelet reports the boot that it is in a while after it has started
        world.cluster.later(100.0, lambda: world.cluster.change_node(NODE, boot_id=reported))
    before = world.lease
    outcome = world.run(BOB)
    assert outcome.ending is ending
    if ending is Ending.HELD:
        assert (world.lease, world.node.unschedulable) == (before, True)


def test_unevictable_pods_are_named_before_cordon():
    world = World(pods=[pod("lonely", owner=None), pod("cache", empty_dirs=("scratch",))])
    outcome = world.run()
    assert outcome.details == (
        "default/lonely: nothing would re-create it (permit: force)",
        "default/cache: its emptyDir scratch would be lost (permit: delete_empty_dir_data)",
    )
    assert untouched(world)
    assert world.cluster.calls["patch_node"] == 0


def test_maintenance_timeout_waits_for_other_maintenance(world):
    world.cluster.change_node(NODE, labels=DRIVER_UPGRADE)
    task = world.begin(maintenance_timeout=600.0)
    world.time.run(100.0)
    assert world.told[-1].waits_for == ("the GPU operator upgrades its driver (drain-required)",)
    world.cluster.change_node(NODE, labels={})
    assert world.end(task).ending is Ending.DONE


def test_included_cordoned_node_stays_cordoned(world):
    world.cluster.change_node(NODE, unschedulable=True)
    assert world.run(include_cordoned=True).ending is Ending.DONE
    assert (world.node.unschedulable, world.record, world.slots()) == (True, None, [])


@pytest.mark.parametrize("again", [False, True], ids=["the cordon that was left", "somebody's own since"])
def test_cordon_left_to_another_owner_is_never_removed(world, again):
    task = world.begin()
    world.reach(Phase.CORDONED)
    world.cluster.change_node(NODE, labels=DRIVER_UPGRADE)
    world.end(task)
    world.machine.files = OLD
    world.cluster.change_node(NODE, labels={}, unschedulable=not again)
    world.cluster.change_node(NODE, unschedulable=True)
    refused, done = world.run(), world.run(include_cordoned=True)
    assert (refused.ending, done.ending, world.node.unschedulable) == (Ending.BLOCKED, Ending.DONE, True)
    assert all("left cordoned" in outcome.reason for outcome in (refused, done))


@pytest.mark.parametrize("call", ["patch nodes", "update leases", "get nodes", "list pods"])
def test_missing_permission_is_reported_and_nothing_is_left(world, call):
    world.cluster.denied = {call}
    with pytest.raises(ForbiddenError, match=call):
        world.run()
    world.cluster.denied = set()
    assert untouched(world)


def test_node_unknown_to_cluster_is_an_error(world):
    with pytest.raises(NotFoundError):
        world.run(name="no-such-node")


def test_blocked_drain_uncordons_node_and_names_budget(world):
    world.cluster.set_budget(DisruptionBudget("default", "web", {"matchLabels": {"app": "web"}}, 0, 1, 1))
    outcome = world.run()
    assert outcome.ending is Ending.BLOCKED
    [blocker] = outcome.details
    assert blocker.startswith("default/web-1: PodDisruptionBudget default/web allows 0 disruptions")
    assert (free(world), untouched(world)) == (True, True)


def test_stale_budget_check_is_repeated_before_cordon(world):
    world.machine.fault = lambda _: HostUnreachableError("no route to host") if world.slots() else None
    task = world.begin()
    world.time.run(100.0)
    assert world.slots() == [NODE]
    world.cluster.change_node("node-0001", ready=False)
    world.machine.fault = None
    world.time.run(60.0)
    assert (world.node.unschedulable, world.slots()) == (False, [])
    world.cluster.change_node("node-0001", ready=True)
    assert world.end(task).ending is Ending.DONE


# Abort.


@pytest.mark.parametrize("phase", [Phase.CORDONED, Phase.APPLYING, Phase.APPLIED, Phase.UNDOING], ids=str)
def test_abort_restores_old_state_from_any_phase(world, phase):
    undoing = phase is Phase.UNDOING
    world.trouble(gpus="7" if undoing else "8")
    task = world.begin()
    world.reach(phase)
    request_abort(world.cluster, NODE)
    outcome = world.end(task)
    assert outcome.ending is (Ending.ROLLED_BACK if undoing else Ending.ABORTED)
    assert (world.machine.files, free(world)) == (OLD, True)
    assert ABORT not in world.lease.annotations


def test_abort_for_an_earlier_rollout_ends_nothing(world):
    request_abort(world.cluster, NODE)
    assert world.run().ending is Ending.DONE


# Somebody interferes.


def test_uncordon_before_change_ends_the_rollout(world):
    world.cluster.shutdown_seconds = 20.0
    task = world.begin()
    world.reach(Phase.CORDONED)
    world.cluster.change_node(NODE, unschedulable=False)
    outcome = world.end(task)
    assert (outcome.ending, "uncordoned" in outcome.reason) == (Ending.BLOCKED, True)
    assert (untouched(world), free(world)) == (True, True)


BEGUN = [Phase.APPLYING, Phase.APPLIED, Phase.UNDOING, Phase.HELD]


def uncordoned(phase: Phase) -> World:
    """Return a world whose node was uncordoned after its change had begun, and is left to a person."""
    world = World()
    world.trouble(gpus="7" if phase in (Phase.UNDOING, Phase.HELD) else "8", broken_gpu=phase is Phase.HELD)
    task = world.begin()
    world.reach(phase)
    world.cluster.change_node(NODE, unschedulable=False)
    outcome = world.end(task)
    assert outcome.ending is Ending.HELD
    assert phase is Phase.HELD or "resume or abort, which first cordons and drains it again" in outcome.reason
    assert (world.node.unschedulable, world.slots()) == (False, [NODE])
    world.machine.on_stop = lambda _: stopped_under(world)
    return world


def stopped_under(world: World) -> None:
    """Hear that the kubelet is stopped."""
    pods = world.cluster.quietly(lambda: world.cluster.pods(NODE))
    assert not [pod for pod in pods if pod.owner and pod.owner.kind != "DaemonSet"], "pods are running"


@pytest.mark.parametrize("abort", [False, True], ids=["resume", "abort"])
@pytest.mark.parametrize("phase", BEGUN, ids=str)
def test_node_back_in_service_is_drained_first_on_resume(phase, abort):
    world = uncordoned(phase)
    for name in ("came-1", "came-2"):
        world.cluster.add_pod(pod(name))
    if abort:
        request_abort(world.cluster, NODE)
    told = len(world.told)
    outcome = world.run(BOB)
    first = next(progress for progress in world.told[told:] if progress.phase != "waits for a slot")
    assert (first.phase, "default/came-1" in first.waits_for[0]) == ("drains", True)
    assert outcome.ending in (Ending.DONE, Ending.ROLLED_BACK, Ending.ABORTED, Ending.HELD)
    assert not [pod for pod in world.cluster.pods(NODE) if pod.name.startswith("came")]
    assert (world.machine.between, world.machine.busy) == (False, False)
    assert free(world) is (phase is not Phase.HELD)


@pytest.mark.parametrize("phase", BEGUN, ids=str)
def test_node_whose_pods_cannot_leave_again_is_held_unchanged(phase):
    world = uncordoned(phase)
    stays = pod("stays", finalizers=("example.com/never",))
    world.cluster.add_pod(stays)
    files, applied = world.machine.files, len(world.machine.reverted)
    outcome = world.run(BOB)
    assert outcome.ending is Ending.HELD
    assert "could not be drained again" in outcome.reason
    assert "finalizer example.com/never" in outcome.details[0]
    assert (world.machine.files, len(world.machine.reverted), world.phase) == (files, applied, phase)
    left = next(pod for pod in world.cluster.pods(NODE) if pod.name == "stays")
    world.cluster.change_pod(left, finalizers=())
    world.time.run(10.0)
    assert free(world) is False
    assert world.run(BOB).ending is not Ending.BLOCKED


def test_uncordoned_node_is_taken_again_only_within_the_budget():
    world = uncordoned(Phase.APPLIED)
    world.cluster.change_node("node-0001", ready=False)
    outcome = world.run(BOB)
    assert (outcome.ending, world.node.unschedulable, world.phase) == (Ending.HELD, False, Phase.APPLIED)
    assert "it was uncordoned, and is not taken again: no slot after 300 s: 1 of at most 1" in outcome.reason
    world.cluster.change_node("node-0001", ready=True)
    assert (world.run(BOB).ending, free(world)) == (Ending.DONE, True)


@pytest.mark.parametrize("phase", BEGUN[1:], ids=str)
def test_reregistered_node_is_cordoned_and_drained_before_anything_else(world, phase):
    world.trouble(gpus="7" if phase in (Phase.UNDOING, Phase.HELD) else "8", broken_gpu=phase is Phase.HELD)
    task = world.begin()
    world.reach(phase)
    task.kill()
    node = world.node
    world.cluster.delete_node(NODE)
    world.cluster.add_node(replace(node, uid="another", annotations={}, unschedulable=False, ready=True))
    world.cluster.add_pod(pod("came"))
    world.machine.on_stop = lambda _: stopped_under(world)
    world.run(BOB)
    assert not [pod for pod in world.cluster.pods(NODE) if pod.name.startswith("came")]
    assert (world.machine.between, world.machine.busy) == (False, False)
    assert world.lease.annotations["numaforge.io/node-uid"] == "another"


# A transaction that is parked until pods have left.

DAEMON = Owner("DaemonSet", "gpu-plugin", "uid-gpu-plugin")


def test_transaction_tolerates_pods_left_by_the_drain():
    world = World(pods=[pod("web-1"), pod("plugin", owner=DAEMON), pod("static", mirror=True)])
    world.cluster.change_pod(
        next(found for found in world.cluster.pods(NODE) if found.name == "static"),
        annotations={"kubernetes.io/config.hash": "manifest-1"},
    )
    begun = []
    begin = world.machine.begin
    world.machine.begin = lambda transaction: (begun.append(transaction.allowed), begin(transaction))
    assert world.run().ending is Ending.DONE
    assert begun == [("uid-plugin", "manifest-1")]


def test_rollback_allows_replaced_daemonset_pod():
    world = World(pods=[pod("plugin", owner=DAEMON)])
    world.trouble(gpus="7")
    task = world.begin()
    world.reach(Phase.APPLIED)
    [plugin] = world.cluster.pods(NODE)
    world.cluster.delete_pod(plugin)
    outcome = world.end(task)
    assert (outcome.ending, free(world)) == (Ending.ROLLED_BACK, True)
    [successor] = world.cluster.pods(NODE)
    assert successor.uid != plugin.uid
    assert world.machine.leases[-1] == (world.machine.applied[0], (successor.uid,))
    assert any("pods are there" in line for progress in world.told for line in progress.waits_for)


def unconfirmed() -> World:
    """Return a world whose runner has died, and whose node goes back by itself under pods that came since."""
    world = World()
    world.trouble(deaf=True)
    task = world.begin(ANN)
    world.time.run(lambda: any("connection refused" in told.waits_for for told in world.told))
    task.kill()
    world.machine.on_stop = lambda _: stopped_under(world)
    world.cluster.change_node(NODE, unschedulable=False)
    world.cluster.add_pod(pod("came", finalizers=("example.com/never",)))
    world.time.run(CONFIRM_SECONDS + 60.0)
    assert (world.machine.files, world.machine.busy) == (NEW, True)
    return world


@pytest.mark.parametrize("abort", [False, True], ids=["resume", "abort"])
def test_rollback_waiting_for_pods_drains_them(abort):
    world = unconfirmed()
    world.cluster.change_pod(world.cluster.pods(NODE)[0], finalizers=())
    if abort:
        request_abort(world.cluster, NODE)
    assert (world.run(BOB).ending, world.machine.files, free(world)) == (Ending.ROLLED_BACK, OLD, True)


def test_node_waiting_for_pods_to_leave_is_held_until_they_are_gone():
    world = unconfirmed()
    outcome = world.run(BOB)
    assert (outcome.ending, world.node.unschedulable, world.slots()) == (Ending.HELD, True, [NODE])
    assert "could not be drained again: have its pods end" in outcome.reason
    assert "finalizer example.com/never" in outcome.details[0]
    assert world.machine.files == NEW
    world.cluster.change_pod(world.cluster.pods(NODE)[0], finalizers=())
    world.time.run(60.0)
    assert (world.machine.files, world.machine.busy) == (OLD, False)  # by itself
    assert (world.run(BOB).ending, free(world)) == (Ending.ROLLED_BACK, True)


def test_pods_known_only_to_node_are_named_after_drain_time(world):
    world.trouble(gpus="7")
    world.machine.foreign_pods = ("uid-that-the-cluster-does-not-know",)
    outcome = world.run()
    assert (outcome.ending, world.phase) == (Ending.HELD, Phase.UNDOING)
    assert outcome.details == ("pods are there: uid-that-the-cluster-does-not-know",)
    world.machine.foreign_pods = ()
    world.time.run(60.0)
    assert (world.run(BOB).ending, free(world)) == (Ending.ROLLED_BACK, True)


def test_uncordon_after_verification_does_no_harm(world):
    world.cluster.fault = lambda _: Killed() if world.phase is Phase.VERIFIED else None
    world.time.finish(world.begin())
    world.cluster.fault = None
    assert world.phase is Phase.VERIFIED
    world.cluster.change_node(NODE, unschedulable=False)
    assert (world.run(BOB).ending, free(world)) == (Ending.DONE, True)


@pytest.mark.parametrize("phase", [Phase.CORDONED, Phase.APPLYING, Phase.APPLIED], ids=str)
def test_node_under_other_maintenance_is_left_cordoned(world, phase):
    task = world.begin()
    world.reach(phase)
    world.cluster.change_node(NODE, labels=DRIVER_UPGRADE)
    outcome = world.end(task)
    assert "left cordoned, because another maintenance was in progress: the GPU operator" in outcome.reason
    assert (outcome.ending, world.machine.files) == (
        (Ending.BLOCKED, OLD) if phase is Phase.CORDONED else (Ending.DONE, NEW)
    )
    assert (world.node.unschedulable, world.record, world.slots()) == (True, None, [])


@pytest.mark.parametrize(
    ("phase", "ending"), [(Phase.CORDONED, Ending.BLOCKED), (Phase.APPLIED, Ending.HELD)], ids=str
)
def test_removed_record_is_reported_with_remaining_cordon(world, phase, ending):
    world.cluster.shutdown_seconds = 20.0
    task = world.begin()
    world.reach(phase)
    world.cluster.delete_lease(lease_name(NODE))
    outcome = world.end(task)
    assert outcome.ending is ending
    assert "the record of its roll-out was deleted (Lease numaforge-node-node-0000)" in outcome.reason
    assert (world.node.unschedulable, world.slots()) == (True, [])


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "registered again with another UID"])
@pytest.mark.parametrize("phase", [Phase.CORDONED, Phase.APPLYING, Phase.APPLIED], ids=str)
def test_slot_of_deleted_node_is_freed(world, phase, again):
    world.cluster.shutdown_seconds = 20.0
    task = world.begin()
    world.reach(phase)
    node = world.node
    world.cluster.delete_node(NODE)
    if again:
        world.cluster.add_node(replace(node, uid="another", annotations={}, unschedulable=False))
    outcome = world.end(task)
    assert outcome.ending is (Ending.BLOCKED if phase is Phase.CORDONED else Ending.HELD)
    assert world.slots() == []
    world.time.run(60.0)
    assert not world.machine.between


def test_unreadable_record_is_named_with_the_remedy(world):
    write_record(world.cluster, world.node)
    with pytest.raises(Exception, match=f"kubectl -n numaforge delete lease numaforge-node-{NODE}"):
        world.run()
    assert world.slots() == []


# Nobody answers.


def cut_off(world: World, side: str) -> None:
    if side == "the host":
        world.machine.fault = lambda _: HostUnreachableError("ssh: connection refused")
    else:
        world.cluster.fault = lambda _: ApiUnreachableError("etcdserver: leader changed")


SIDES = pytest.mark.parametrize("side", ["the API server", "the host"])


@pytest.mark.parametrize("phase", [Phase.CORDONED, Phase.APPLYING, Phase.APPLIED, Phase.UNDOING], ids=str)
@SIDES
def test_outage_of_minutes_undoes_nothing(world, side, phase):
    world.trouble(gpus="7" if phase is Phase.UNDOING else "8")
    task = world.begin()
    world.reach(phase)
    cut_off(world, side)
    world.time.run(300.0)
    assert not task.ended
    world.machine.fault = world.cluster.fault = None
    expected = Ending.ROLLED_BACK if phase is Phase.UNDOING else Ending.DONE
    assert (world.end(task).ending, free(world)) == (expected, True)


@pytest.mark.parametrize("phase", [Phase.CORDONED, Phase.APPLYING, Phase.APPLIED], ids=str)
@SIDES
def test_run_gives_up_after_patience_and_next_run_resumes(world, side, phase):
    world.cluster.shutdown_seconds = 20.0
    task = world.begin()
    world.reach(phase)
    cut_off(world, side)
    outcome = world.end(task)
    untouched_host = side == "the host" and phase is Phase.CORDONED
    assert outcome.ending is (Ending.BLOCKED if untouched_host else Ending.HELD)
    world.machine.fault = world.cluster.fault = None
    assert free(world) == untouched_host
    unconfirmed = side == "the host" and phase is Phase.APPLYING
    expected = Ending.ROLLED_BACK if unconfirmed else Ending.DONE
    assert (world.run(BOB).ending, free(world)) == (expected, True)


# ---- the confirmation ----


def reach_confirming(world):
    world.reach(Phase.APPLYING)
    transaction = world.record.transaction
    world.time.run(lambda: world.machine.status(transaction).waits)
    assert world.machine.status(transaction).waits


@cases(
    "refusal, reason",
    {
        "no new login": (HostUnreachableError("connection refused"), "the change was not confirmed"),
        "a full disk": (HostError("no space left"), ""),
    },
)
def test_node_that_cannot_be_confirmed_is_rolled_back(world, refusal, reason):
    world.machine.fault = lambda call: refusal if call == "confirm" else None
    outcome = world.run()
    assert (outcome.ending, world.machine.files, free(world)) == (Ending.ROLLED_BACK, OLD, True)
    assert outcome.reason.startswith(reason)


@cases(
    "seconds, ending, files",
    {
        "is resumed in time": (120.0, Ending.DONE, NEW),
        "is resumed too late": (CONFIRM_SECONDS + 30.0, Ending.ROLLED_BACK, OLD),
    },
)
def test_runner_that_dies_before_confirmation(world, seconds, ending, files):
    task = world.begin()
    reach_confirming(world)
    task.kill()
    world.time.run(seconds)
    assert (world.machine.files, world.run(BOB).ending, free(world)) == (files, ending, True)


# ---- records of the node that are gone ----


def forgetful(files):
    """Return a world whose node is handed a transaction, and has these files and no records afterwards."""
    world = World()

    def fault(call):
        if call == "no answer":
            world.machine.forget()
            world.machine.files = files

    late = iter([1000.0])
    world.machine.on_the_way = lambda: next(late, 0.0)
    world.machine.fault = fault
    return world


@cases(
    "files, wanted",
    {"an unchanged node is changed again": (OLD, None), "one as planned is proved": (NEW, Expected())},
)
def test_node_without_records_ends_as_planned(files, wanted):
    world = forgetful(files)
    world.machine.wanted = wanted or world.machine.wanted
    assert (world.run().ending, world.machine.files, free(world)) == (Ending.DONE, NEW, True)


def test_half_changed_node_without_records_is_held_until_a_person_aborts():
    world = forgetful(HALF)
    outcome = world.run()
    assert (outcome.ending, free(world)) == (Ending.HELD, False)
    assert "the node's records of the transaction are gone" in outcome.reason
    assert (world.run(BOB).ending, free(world)) == (Ending.HELD, False)
    request_abort(world.cluster, NODE)
    assert (world.run(BOB).ending, free(world)) == (Ending.ROLLED_BACK, True)


@pytest.mark.parametrize("seconds", [100.0, 1500.0], ids=["soon", "long-afterwards"])
def test_late_undo_request_leaves_node_in_service(world, seconds):
    world.trouble(gpus="7")
    late = iter([0.0, seconds])  # the confirmation, and the first request
    world.machine.asked_late = lambda: next(late, 0.0)
    asked = iter([None, HostError("no space left on device")])
    world.machine.fault = lambda call: next(asked, None) if call == "revert" else None
    assert world.run().ending is Ending.HELD
    world.cluster.change_node(NODE, allocatable={**world.node.allocatable, "nvidia.com/gpu": "8"})
    assert (world.run(BOB).ending, free(world)) == (Ending.DONE, True)
    world.time.run(3000.0)
    assert (world.machine.files, world.machine.reverted, free(world)) == (NEW, [], True)


@pytest.mark.parametrize(("aborted", "blamed"), [(False, True), (True, False)], ids=["failed", "aborted"])
def test_failed_plan_is_remembered_but_aborted_plan_is_not(world, aborted, blamed):
    world.trouble(gpus="7")
    task = world.begin()
    world.reach(Phase.APPLIED)
    if aborted:
        request_abort(world.cluster, NODE)
    world.end(task)
    assert world.machine.blamed == [blamed]


JOB = OtherWork({"slurm": ("job 1, process 2 (a)",)})


def test_undrainable_work_is_refused_before_cordon(world):
    world.machine.parts = (Part("hugepages", drains=True),)
    world.machine.work = JOB
    outcome = world.run()
    assert (outcome.ending, free(world), world.cluster.calls["patch_node"]) == (Ending.BLOCKED, True, 0)
    assert outcome.reason == "the change would end work that no drain moves: slurm: job 1, process 2 (a)"


def test_work_arriving_during_drain_releases_node_unchanged(world):
    world.machine.parts = (Part("hugepages", drains=True),)
    task = world.begin()
    world.reach(Phase.CORDONED)
    world.machine.work = JOB
    outcome = world.end(task)
    assert (outcome.ending, world.machine.files, free(world)) == (Ending.BLOCKED, OLD, True)
    assert "slurm: job 1" in outcome.reason


def test_previously_failed_plan_is_refused_up_front(world):
    world.machine.failed_before = "this plan was rolled back on this host"
    outcome = world.run()
    assert (outcome.ending, outcome.reason) == (Ending.BLOCKED, "this plan was rolled back on this host")
    assert (world.cluster.calls["patch_node"], world.cluster.calls["put_lease"]) == (0, 0)


def test_ready_node_with_stopped_kubelet_is_refused_before_cordon(world):
    world.machine.pods = Pods(
        alive=("process 7 (sleep) in /kubepods.slice",), kubelet_down="its unit is failed"
    )
    world.machine.parts = (Part("hugepages", drains=True),)
    assert world.node.ready
    outcome = world.run()
    assert outcome.ending is Ending.BLOCKED
    assert outcome.reason.startswith(
        "no kubelet runs on it (its unit is failed), and without one no pod ends"
    )
    assert "systemctl start kubelet" in outcome.reason
    calls = world.cluster.calls
    assert (calls["patch_node"], calls["put_lease"], calls["evict"]) == (0, 0, 0)


def test_kubelet_that_stops_while_a_slot_is_taken_is_noticed_before_cordon(world):
    world.machine.parts = (Part("hugepages", drains=True),)

    def stop(call: str) -> None:
        if call == "put_lease":
            world.machine.pods = Pods(left=("/var/lib/kubelet/pods/1",), kubelet_down="its unit is inactive")

    world.cluster.fault = stop
    outcome = world.run()
    assert (outcome.ending, world.cluster.calls["patch_node"], free(world)) == (Ending.BLOCKED, 0, True)


def test_host_that_refuses_to_begin_is_reported_and_released(world):
    world.machine._current = "another"
    outcome = world.run()
    assert (outcome.ending, free(world)) == (Ending.BLOCKED, True)
    assert "the transaction another is changing this kubelet" in outcome.reason


# A transaction that is handed over, and how it can reach the node late.


def begins(world: World) -> list[bool]:
    """Return a list that is told of every transaction that begins: whether the node is out of service."""
    found: list[bool] = []
    world.machine.on_begin = lambda _: found.append(world.node.unschedulable and world.record is not None)
    return found


def handed_over(world: World, seconds: float) -> list[float]:
    """Have the first transaction be under way for so long; return a list of what is handed over."""
    found: list[float] = []

    def on_the_way() -> float:
        found.append(seconds if not found else 0.0)
        return found[-1]

    world.machine.on_the_way = on_the_way
    return found


@pytest.mark.parametrize("seconds", [1.0, 30.0, 300.0, 3000.0])
def test_unanswered_transaction_is_cancelled_and_replanned(world, seconds):
    begun, handed = begins(world), handed_over(world, seconds)
    outcome = world.run()
    world.time.run(3600.0)
    assert (outcome.ending, begun, len(handed), free(world)) == (Ending.DONE, [True], 2, True)


@pytest.mark.parametrize("seconds", [90.0, 300.0])
def test_late_transaction_of_killed_runner_leaves_node_in_service(world, seconds):
    begun = begins(world)
    handed_over(world, seconds)
    world.machine.fault = lambda call: Killed() if call == "no answer" else None
    killed = world.begin(ANN)
    world.time.finish(killed)
    assert (killed.killed, world.phase) == (True, Phase.APPLYING)
    assert (world.run(BOB).ending, free(world)) == (Ending.DONE, True)
    world.time.run(600.0)
    assert (begun, len(world.machine.applied)) == ([True], 1)


def test_node_released_unchanged_is_not_changed_by_a_late_transaction(world):
    begun = begins(world)
    handed_over(world, 110.0)  # the node is as it was looked at, and that was not long ago
    world.machine.fault = lambda call: Killed() if call == "no answer" else None
    world.time.finish(world.begin(ANN))
    request_abort(world.cluster, NODE)
    assert (world.run(BOB).ending, free(world)) == (Ending.ABORTED, True)
    world.time.run(600.0)
    assert (begun, world.machine.files) == ([], OLD)


def test_runner_asleep_before_transaction_handover_changes_nothing(world):
    begun = begins(world)

    def sleeps(call):
        if call == "begin":
            world.machine.fault = None
            assert world.run(BOB).ending is Ending.DONE

    world.machine.fault = sleeps
    outcome = world.run(ANN)
    world.time.run(600.0)
    assert (outcome.ending, begun, free(world)) == (Ending.BLOCKED, [True], True)


def test_transaction_begun_just_before_cancellation_continues(world):
    begun = begins(world)
    handed_over(world, 3600.0)

    def arrives(call):
        if call == "void":
            world.machine.fault = None
            world.machine._begin("t3")

    world.machine.fault = arrives
    assert (world.run().ending, begun, world.machine.applied) == (Ending.DONE, [True], ["t3"])


@pytest.mark.parametrize("again", [False, True], ids=["while it runs", "on resume"])
def test_node_uncordoned_before_transaction_stays_in_service(world, again):
    begun = begins(world)
    handed_over(world, 300.0)
    world.machine.fault = lambda call: (
        HostUnreachableError("no route") if call in ("status", "void") else None
    )
    task = world.begin()
    world.reach(Phase.APPLYING)
    world.time.run(10.0)
    world.cluster.change_node(NODE, unschedulable=False)
    if again:
        task.kill()
    world.machine.fault = None
    outcome = world.run(BOB) if again else world.end(task)
    world.time.run(600.0)
    assert (outcome.ending, begun, free(world)) == (Ending.BLOCKED, [], True)
    assert "uncordoned" in outcome.reason


@pytest.mark.parametrize(("times", "ending"), [(1, Ending.DONE), (2, Ending.DONE), (3, Ending.BLOCKED)])
def test_node_that_refuses_three_transactions_in_a_row_is_released(world, times, ending):
    world.beside = world.time.beside
    count = iter(range(2 * times))  # before it takes effect, and before it is answered

    def takes_long(call):
        if call == "begin" and next(count, None) is not None:
            world.time.run(150.0)

    world.machine.fault = takes_long
    outcome = world.run()
    assert (outcome.ending, free(world)) == (ending, True)
    if ending is Ending.BLOCKED:
        assert outcome.reason == "3 times in a row nothing was changed: the node was looked at 150 s ago"


def test_interrupted_transaction_is_settled_after_second_drain(world):
    world.trouble(broken_off=True)
    killed = world.begin(ANN)
    world.reach(Phase.APPLYING)
    killed.kill()
    world.cluster.change_node(NODE, unschedulable=False)
    assert (world.run(BOB).ending, free(world)) == (Ending.ROLLED_BACK, True)
    assert (world.machine.files, world.machine.busy) == (OLD, False)


def test_uncordoned_node_is_held_instead_of_undone(world):
    world.trouble(gpus="7")
    world.machine.fault = lambda call: HostUnreachableError("no route") if call == "revert" else None
    task = world.begin()
    world.reach(Phase.UNDOING)
    world.time.run(10.0)
    world.cluster.change_node(NODE, unschedulable=False)
    world.machine.fault = None
    assert (world.end(task).ending, world.machine.reverted) == (Ending.HELD, [])


def test_transaction_unknown_to_a_held_node_is_voided_before_release(world):
    begun = begins(world)
    handed_over(world, 600.0)
    world.machine.fault = lambda call: HostError("no room") if call == "void" else None
    assert (world.run().ending, world.phase) == (Ending.HELD, Phase.HELD)
    world.machine.fault = None
    assert (world.run(BOB).ending, free(world)) == (Ending.ROLLED_BACK, True)
    world.time.run(1200.0)
    assert begun == []


# Two runners.


def test_second_runner_waits_and_finds_nothing_to_do(world):
    first = world.begin(ANN)
    world.reach(Phase.CORDONED)
    second = world.begin(BOB)
    world.time.run(10.0)
    assert (f"{ANN} is at work on it",) in [progress.waits_for for progress in world.told]
    assert world.end(first, second).ending is Ending.DONE
    assert second.result.ending is Ending.UNCHANGED
    assert (len(world.machine.applied), world.events().count("Cordoned"), free(world)) == (1, 1, True)


def test_simultaneous_runners_change_node_once(world):
    first, second = world.begin(ANN), world.begin(BOB)
    world.end(first, second)
    assert (len(world.machine.applied), world.machine.files, free(world)) == (1, NEW, True)


def test_runner_silent_for_too_long_loses_its_node_to_another(world):
    first = world.begin(ANN)
    world.reach(Phase.APPLIED)
    first.ended = True  # it sleeps
    assert world.run(BOB).ending is Ending.DONE
    world.machine.files = OLD
    late = world.time.spawn(first.steps)
    world.time.finish(late)
    assert (late.result.ending, world.machine.files) == (Ending.BLOCKED, OLD)


@pytest.mark.parametrize("call", ["status", "begin"])
def test_runner_blocked_by_a_host_for_minutes_does_not_count_as_dead(world, call):
    world.beside = world.time.beside
    first = world.begin(ANN)
    world.reach(Phase.CORDONED)
    second = world.begin(BOB, slot_timeout=3600.0)

    def blocks(name):
        if name == call:
            world.machine.fault = None
            world.time.run(300.0)

    world.machine.fault = blocks
    assert world.end(first, second).ending is Ending.DONE
    assert second.result.ending is Ending.UNCHANGED


def test_cordoned_node_continues_after_its_slot_is_deleted(world):
    task = world.begin()
    world.reach(Phase.APPLIED)
    world.cluster.delete_lease("numaforge-slot-0")
    assert (world.end(task).ending, free(world)) == (Ending.DONE, True)
    assert ("another process has released the node's slot",) in [
        progress.waits_for for progress in world.told
    ]


def test_node_without_its_slot_is_not_cordoned(world):
    task = world.begin(maintenance_timeout=600.0)
    world.cluster.fault = lambda call: ConflictError("modified") if call == "patch_node" else None
    world.time.run(5.0)
    world.cluster.change_node(NODE, labels=DRIVER_UPGRADE)
    world.cluster.fault = None
    world.cluster.delete_lease("numaforge-slot-0")
    world.time.run(20.0)
    world.cluster.change_node(NODE, labels={})
    outcome = world.end(task)
    assert (outcome.reason, untouched(world)) == ("another process has released the node's slot", True)


def test_remote_runner_is_dead_after_a_minute_of_silence(world):
    task = world.begin(ANN)
    world.reach(Phase.CORDONED)
    task.kill()
    begun = world.time.now
    assert world.run(BOB).ending is Ending.DONE
    assert begun + 60 <= world.time.now <= begun + 60 + 70


# Killed at every moment; the answer to every call lost; the API server away at every call.


class Boundaries:
    """Counts the boundaries of calls, before and after the effect, and does something at the n-th."""

    def __init__(
        self, world: World, chosen: int | None, failure: Callable[[str], BaseException | None]
    ) -> None:
        self.count = 0
        self._chosen = chosen
        self._failure = failure
        world.cluster.fault = self._on(ApiUnreachableError)
        world.machine.fault = self._on(HostUnreachableError)

    def _on(self, away):
        def fault(call: str) -> BaseException | None:
            self.count += 1
            return self._failure(away) if self.count - 1 == self._chosen else None

        return fault


SCENARIOS = {
    "the change succeeds": ({}, Ending.DONE, NEW),
    "a GPU is missing": ({"gpus": "7"}, Ending.ROLLED_BACK, OLD),
    "the kubelet does not start": ({"does_not_start": True}, Ending.ROLLED_BACK, OLD),
}
QUICK = GateSettings(ready_timeout=16.0, stable_seconds=2.0)


def undisturbed(trouble: dict) -> int:
    """Return how many boundaries there are."""
    world = World()
    world.trouble(**trouble)
    counted = Boundaries(world, None, lambda _: None)
    world.run(gate=QUICK)
    return counted.count


def disturbed(
    trouble: dict, chosen: int, failure: Callable[[str], BaseException | None]
) -> tuple[World, Task]:
    world = World()
    world.trouble(**trouble)
    Boundaries(world, chosen, failure)
    task = world.begin(ANN, gate=QUICK)
    world.time.finish(task)
    world.cluster.fault = world.machine.fault = None
    return world, task


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_run_killed_at_any_moment_is_resumed(scenario):
    trouble, ending, files = SCENARIOS[scenario]
    for chosen in range(undisturbed(trouble)):
        world, task = disturbed(trouble, chosen, lambda _: Killed())
        assert task.killed, chosen
        ended = world.ended is not None  # another roll-out of this node is a new one
        done = ended and files == NEW
        outcome = world.run(BOB, gate=QUICK)
        assert outcome.ending is (Ending.UNCHANGED if done else ending), f"{chosen}: {outcome}"
        assert (world.machine.files, free(world)) == (files, True), chosen
        assert len(world.machine.applied) <= 1 + (ended and not done), chosen


@pytest.mark.variants(1)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_lost_answer_does_not_affect_the_outcome(scenario):
    trouble, ending, files = SCENARIOS[scenario]
    for chosen in range(undisturbed(trouble)):
        world, task = disturbed(trouble, chosen, lambda away: away("connection reset"))
        assert task.error is None, f"{chosen}: {task.error}"
        assert (task.result.ending, world.machine.files, free(world)) == (ending, files, True), chosen
        assert len(world.machine.applied) <= 1, chosen


def test_conflict_at_any_write_does_not_affect_the_outcome():
    writes = 14
    for chosen in range(writes):
        world = World()
        seen = iter(range(1000))

        def fault(call, seen=seen, chosen=chosen):
            if call in ("patch_node", "put_lease") and next(seen) == 2 * chosen:
                return ConflictError("the object has been modified")
            return None

        world.cluster.fault = fault
        task = world.begin()
        world.time.finish(task)
        world.cluster.fault = None
        assert task.error is None, str(task.error)
        assert (task.result.ending, world.machine.files, free(world)) == (Ending.DONE, NEW, True), chosen


def test_clock_skew_of_an_hour_is_harmless(world):
    task = world.begin(ANN)
    world.reach(Phase.CORDONED)
    task.kill()
    other = world.rollout(BOB)
    other.clock = lambda: world.time.now - 3600.0
    assert (world.end(world.time.spawn(other.run())).ending, free(world)) == (Ending.DONE, True)


def test_drain_waits_for_hour_long_grace_period():
    world = World(pods=[pod("training", grace_seconds=3600)])
    world.cluster.shutdown_seconds = 3600.0
    assert world.run(drain=DrainSettings()).ending is Ending.DONE
    assert world.time.now > 4600.0
