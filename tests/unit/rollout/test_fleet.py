"""Who is next, how many together, and when nothing new is begun."""

from dataclasses import replace

import pytest

from numaforge.lib.errors import ExitCode
from numaforge.rollout.budget import COMPUTE_DOMAIN, Budget, Share
from numaforge.rollout.cluster import ApiUnreachableError, ForbiddenError
from numaforge.rollout.fleet import FleetReport, Member, in_order
from numaforge.rollout.node import Outcome
from numaforge.rollout.record import Ending, Phase
from tests.fixtures.memory_machine import Trouble
from tests.fixtures.rollout_world import NODE, Watched, out_at_once


def test_hosts_are_ordered_by_natural_name():
    hosts = ["gpu-10", "gpu-2", "gpu-1", "cpu-3", "gpu-2a"]
    assert [member.host for member in in_order([Member(host, host) for host in hosts])] == [
        "cpu-3",
        "gpu-1",
        "gpu-2",
        "gpu-2a",
        "gpu-10",
    ]


@pytest.mark.parametrize(("share", "most"), [("1", 1), ("3", 3), ("25%", 2), ("1%", 1)])
def test_nodes_out_never_exceed_the_budget(share, most):
    world = Watched(8)
    report = world.roll_out(budget=Budget(Share.parse(share)))
    assert (world.most, set(report.outcomes.values())) == (
        most,
        {Outcome(Ending.DONE, "the node is as planned")},
    )
    assert report.exit_code is ExitCode.YES
    assert sorted(world.order) == world.order


def test_nodes_out_for_other_reasons_count():
    world = Watched(6)
    world.cluster.change_node("node-0005", ready=False)
    world.roll_out(members=["node-0000", "node-0001", "node-0002"], budget=out_at_once(2))
    assert world.most == 1


def test_full_budget_stops_rollout_with_a_report():
    world = Watched(3)
    world.cluster.change_node("node-0002", ready=False)
    report = world.roll_out(members=["node-0000"], slot_timeout=600.0)
    assert report.stopped.startswith(
        "no room in the budget for 600 s: 1 of at most 1 nodes are out of service"
    )
    assert (report.exit_code, world.order) == (ExitCode.BLOCKED, [])


def test_failed_canary_stops_all_other_nodes():
    world = Watched(4)
    world.machine_of("node-0000").trouble = Trouble(does_not_start=True)
    report = world.roll_out(budget=out_at_once(3), canaries=1)
    assert (world.order, report.exit_code) == (["node-0000"], ExitCode.ROLLED_BACK)
    assert report.stopped == "node-0000 is rolled-back, and no more than 0 may fail"
    assert set(report.not_begun) == {"node-0001", "node-0002", "node-0003"}


def test_plan_refused_by_kubelet_rehearsal_fails_without_outage():
    world = Watched(4)
    world.machine_of("node-0000").trouble = Trouble(rehearsal="the kubelet refuses the plan")
    report = world.roll_out(canaries=1)
    outcome = report.outcomes["node-0000"]
    assert (outcome.ending, outcome.reason) == (Ending.REFUSED_BY_KUBELET, "the kubelet refuses the plan")
    assert (report.exit_code, len(report.not_begun)) == (ExitCode.BLOCKED, 3)
    assert report.stopped == "node-0000 is refused-by-kubelet, and no more than 0 may fail"
    assert not any(world.cluster.node(f"node-000{number}").unschedulable for number in range(4))


@pytest.mark.parametrize(("limit", "begun"), [(None, 4), (0, 1), (1, 2)])
def test_blocked_nodes_never_exceed_limit(limit, begun):
    world = Watched(4)
    for number in range(4):
        world.machine_of(f"node-000{number}").trouble = Trouble(refused="no space left on device")
    report = world.roll_out(max_blocked=limit)
    assert (len(report.outcomes), report.exit_code) == (begun, ExitCode.BLOCKED)


def test_node_waits_for_work_on_other_nodes_without_delaying_the_rest():
    world = Watched(3)
    as_it_was = world.look("node-0001").labels
    world.cluster.change_node("node-0001", labels={**as_it_was, COMPUTE_DOMAIN: "uid-1"})

    def end_of_the_work():
        yield 900.0
        world.cluster.change_node("node-0001", labels=as_it_was)

    world.time.spawn(end_of_the_work())
    report = world.roll_out(budget=out_at_once(2))
    assert world.order == ["node-0000", "node-0002", "node-0001"]
    assert world.cordons[2][0] >= 900.0
    assert report.exit_code is ExitCode.YES


def test_unfinished_node_goes_first():
    world = Watched(4)
    task = world.begin("dead@y/b/1.1", "node-0003")
    world.time.run(lambda: bool(world.cordons))
    task.kill()
    report = world.roll_out(canaries=1)
    assert report.outcomes["node-0003"].ending is Ending.DONE
    assert (world.most, world.slots()) == (1, [])
    assert set(report.outcomes) == {"node-0000", "node-0001", "node-0002", "node-0003"}


def test_abandoned_slot_is_found_and_released():
    world = Watched(4)
    world.run(name="node-0003")
    slot = world.cluster.leases()[0]
    notes = {"numaforge.io/node": "node-0003", "numaforge.io/node-uid": world.look("node-0003").uid}
    world.cluster.put_lease(replace(slot, holder="dead@y/b/1.1", annotations=notes))
    report = world.roll_out()
    assert report.outcomes["node-0003"].ending is Ending.UNCHANGED
    assert (report.exit_code, world.slots()) == (ExitCode.YES, [])


def test_two_fleets_share_one_budget():
    world = Watched(8)
    first = world.time.spawn(world.fleet([f"node-000{n}" for n in range(4)], out_at_once(2)).run())
    second = world.time.spawn(world.fleet([f"node-000{n}" for n in range(4, 8)], out_at_once(2)).run())
    world.time.finish(first, second)
    assert world.most == 2
    assert len(first.result.outcomes) + len(second.result.outcomes) == 8
    assert all(len(machine.applied) == 1 for machine in world.machines.values())


def test_rollout_waits_for_unreachable_api_server():
    world = Watched(3)
    task = world.time.spawn(world.fleet().run())
    world.time.run(100.0)
    world.cluster.fault = lambda _: ApiUnreachableError("connection refused")
    world.time.run(300.0)
    world.cluster.fault = None
    assert len(world.end(task).outcomes) == 3


def test_forbidden_api_call_lets_begun_nodes_finish():
    world = Watched(3)
    task = world.time.spawn(world.fleet().run())
    world.reach(Phase.APPLIED)
    world.cluster.fault = lambda call: ForbiddenError("may not list nodes") if call == "nodes" else None
    report = world.end(task)
    assert report.outcomes[NODE].ending is Ending.DONE
    assert (report.stopped, len(report.not_begun)) == ("may not list nodes", 2)


def test_stop_begins_no_new_node():
    world = Watched(3)
    fleet = world.fleet()
    task = world.time.spawn(fleet.run())
    world.reach(Phase.APPLYING)
    fleet.stop("carol says so")
    report = world.end(task)
    assert (list(report.outcomes), report.stopped) == ([NODE], "carol says so")
    assert report.not_begun == {"node-0001": "carol says so", "node-0002": "carol says so"}


@pytest.mark.parametrize(
    ("endings", "code"),
    [
        ([Ending.DONE, Ending.UNCHANGED], ExitCode.YES),
        ([Ending.DONE, Ending.BLOCKED], ExitCode.BLOCKED),
        ([Ending.ABORTED], ExitCode.BLOCKED),
        ([Ending.BLOCKED, Ending.ROLLED_BACK], ExitCode.ROLLED_BACK),
        ([Ending.HELD, Ending.ROLLED_BACK, Ending.DONE], ExitCode.HELD),
    ],
    ids=str,
)
def test_worst_ending_sets_exit_code(endings, code):
    outcomes = {str(number): Outcome(ending) for number, ending in enumerate(endings)}
    assert FleetReport(outcomes, {}).exit_code is code
    expected = ExitCode.BLOCKED if code is ExitCode.YES else code
    assert FleetReport(outcomes, {"another": "stopped"}).exit_code is expected
