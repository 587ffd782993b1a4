"""A change without a drain: of a node whose pods stay, and of a host that is no Node."""

from dataclasses import replace

import pytest

from numaforge.lib.errors import HostUnreachableError
from numaforge.node.part import Part
from numaforge.rollout.in_place import UNPROTECTED, InPlaceChange, NodeOfHost
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.record import Ending, Phase
from tests.fixtures.memory_machine import NEW, OLD, MemoryMachine, Trouble
from tests.fixtures.rollout_world import NODE, SETTINGS, World
from tests.fixtures.tables import cases
from tests.fixtures.virtual_time import Task

OUTSIDE = "storage-1"
QUICK = replace(SETTINGS, unreachable_timeout=60.0)


class InPlace(World):
    """A world in which a node's pods stay, and with a host that is no Node."""

    def __init__(self) -> None:
        super().__init__()
        self.machine.disturbs = False

    def change(self, host: str = NODE, **more: object) -> InPlaceChange:
        own = NodeOfHost(self.cluster, host) if self.cluster.has_node(host) else None
        machine = self.machine_of(host)
        machine.disturbs = False
        return InPlaceChange(host, machine, own, QUICK, self.time, self.told.append, **more)  # type: ignore[arg-type]

    def changing(self, host: str = NODE, **more: object) -> Task:
        return self.time.spawn(self.change(host, **more).run())

    def changed(self, host: str = NODE, **more: object) -> Outcome | None:
        task = self.changing(host, **more)
        self.time.finish(task)
        if task.error is not None:
            raise task.error
        found: Outcome | None = task.result
        return found

    @property
    def pods(self) -> list[str]:
        return [pod.name for pod in self.cluster.pods(NODE)]


@pytest.fixture
def world() -> InPlace:
    return InPlace()


HOSTS = pytest.mark.parametrize("host", [NODE, OUTSIDE], ids=["a node", "a host outside a cluster"])


@HOSTS
def test_in_place_change_touches_neither_node_nor_pods(world, host):
    before = world.node.resource_version, world.pods
    assert world.changed(host).ending is Ending.DONE
    assert world.machine_of(host).files == NEW
    assert (world.node.resource_version, world.pods) == before
    assert world.slots() == []


@HOSTS
def test_host_already_as_planned_is_left_unchanged(world, host):
    world.machine_of(host).files = NEW
    assert world.changed(host) == Outcome(Ending.UNCHANGED, "it is as planned")


@HOSTS
@cases(
    "trouble, ending, files",
    {
        "it refuses the change": ({"refused": "no space left"}, Ending.BLOCKED, OLD),
        "the change fails": ({"does_not_start": True}, Ending.ROLLED_BACK, OLD),
        "the change is broken off": ({"broken_off": True}, Ending.ROLLED_BACK, OLD),
        "neither way works": ({"does_not_start": True, "cannot_go_back": True}, Ending.HELD, OLD),
        "it answers no new connection any more": ({"deaf": True}, Ending.ROLLED_BACK, OLD),
    },
)
def test_in_place_change_ending_by_host_trouble(world, host, trouble, ending, files):
    world.machine_of(host).trouble = Trouble(**trouble)
    assert world.changed(host).ending is ending
    assert world.machine_of(host).files == files


def test_node_not_ready_after_change_is_rolled_back(world):
    world.trouble(isolates=True)
    outcome = world.changed()
    assert outcome.ending is Ending.ROLLED_BACK
    assert "its Node has sent no heartbeat since" in outcome.reason or "is not Ready" in outcome.reason
    assert (world.machine.files, world.node.ready) == (OLD, True)


def test_stale_ready_without_heartbeat_is_not_believed(world):
    world.trouble(isolates=True)
    task = world.changing()
    world.time.run(lambda: bool(world.machine.applied))
    world.time.run(10.0)
    assert (world.node.ready, task.ended) == (True, False)


def test_briefly_unreachable_host_is_waited_for(world):
    until = world.time.now + 40.0

    def away(call):
        gone = call == "confirm" and world.time.now < until
        return HostUnreachableError("no route", where=NODE) if gone else None

    world.machine.fault = away
    assert world.changed().ending is Ending.DONE


@cases(
    "prepare",
    {
        "drain": lambda world: setattr(world.machine, "parts", (Part("kubelet", drains=True),)),
        "label": lambda world: setattr(
            world.machine, "wanted", replace(world.machine.wanted, labels={"x": "y"})
        ),
    },
)
def test_change_that_needs_a_drain_is_not_made_in_place(world, prepare):
    prepare(world)
    assert world.changed() is None
    assert world.machine.files == OLD


def test_node_in_unfinished_drain_rollout_is_skipped(world):
    task = world.begin("dead@y/b/1.1")
    world.reach(Phase.CORDONED)
    task.kill()
    assert world.changed() is None
    assert world.phase is Phase.CORDONED


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"ready": False, "ready_message": "PLEG"}, "the node is not Ready: PLEG"),
        ({"deleting": True}, "another maintenance of the node is in progress"),
        ({"system_uuid": "of-another"}, "the host is not known to be the machine of this node"),
    ],
    ids=["it is not Ready", "another tool works on it", "the host is another machine"],
)
def test_unsuitable_node_is_blocked_unchanged(world, fields, why):
    world.cluster.change_node(NODE, **fields)
    outcome = world.changed()
    assert (outcome.ending, world.machine.files) == (Ending.BLOCKED, OLD)
    assert why in outcome.reason


def test_a_cordoned_node_is_changed_and_stays_cordoned(world):
    world.cluster.change_node(NODE, unschedulable=True)
    assert world.changed().ending is Ending.DONE
    assert world.node.unschedulable


@pytest.mark.parametrize(
    ("host", "may", "ending"),
    [
        pytest.param(OUTSIDE, False, Ending.BLOCKED, id="a host outside a cluster only where it may"),
        pytest.param(OUTSIDE, True, Ending.DONE, id="a host outside a cluster where it may"),
    ],
)
def test_host_outside_cluster_reboots_only_if_permitted(world, host, may, ending):
    world.machine_of(host).parts = (Part("kernel_cmdline", drains=True, reboots=True),)
    outcome = world.changed(host, may_reboot=may)
    assert outcome.ending is ending
    assert (outcome.reason == UNPROTECTED) is not may


@HOSTS
def test_veto_leaves_host_unchanged(world, host):
    assert world.changed(host, veto=lambda: "not begun") == Outcome(Ending.BLOCKED, "not begun")
    assert world.machine_of(host).files == OLD


@HOSTS
def test_change_with_lost_answer_is_found_not_resent(world, host):
    machine: MemoryMachine = world.machine_of(host)
    lost = iter([None, HostUnreachableError("cut", where=host)])
    machine.fault = lambda call: next(lost, None) if call == "begin" else None
    assert world.changed(host).ending is Ending.DONE
    assert len(machine.applied) == 1


@HOSTS
def test_change_finishes_after_runner_dies_and_next_run_finds_it(world, host):
    task = world.changing(host)
    world.time.run(lambda: world.machine_of(host).busy)
    task.kill()
    world.time.run(60.0)
    assert world.changed(host) == Outcome(Ending.UNCHANGED, "it is as planned")
    assert len(world.machine_of(host).applied) == 1
