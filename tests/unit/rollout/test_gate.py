"""The proof that a node works: fresh, all of it, and for a while on end."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import HostUnreachableError
from numaforge.rollout.cluster import ApiUnreachableError
from numaforge.rollout.configz import SilentKubeletError
from numaforge.rollout.gate import Expected, GateSettings, prove
from numaforge.rollout.patience import Patience
from tests.fixtures.memory_machine import NEW, OFFERED, Reboot
from tests.fixtures.rollout_world import NODE, World
from tests.fixtures.tables import cases, tables
from tests.fixtures.virtual_time import Task

CASES = tables(__file__)

EXPECTED = Expected({"cpuManagerPolicy": "static"}, {"cpu": "60", "nvidia.com/gpu": "8"})
SETTINGS = GateSettings(ready_timeout=60.0, stable_seconds=20.0)


CUT = replace(EXPECTED, allocatable={"nvidia.com/mig-1g.10gb": "56"}, all_gpus=True)
MIG = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "56"}


def begin(world: World, ready_after: float = 2.0, expected: Expected = EXPECTED, **changes) -> Task:
    world.cluster.stop_kubelet(NODE)
    world.machine.files = NEW
    world.cluster.start_kubelet(
        NODE, config=NEW, allocatable={**OFFERED, "cpu": "60", **changes}, ready_after=ready_after
    )
    return prove_it(world, expected)


def prove_it(world: World, expected: Expected = EXPECTED) -> Task:
    return world.time.spawn(
        prove(
            world.cluster,
            NODE,
            expected,
            SETTINGS,
            process=world.machine.process,
            own_config=world.machine.running_config,
            clock=world.time,
            check=lambda: world.cluster.node(NODE),
            tell=lambda _: None,
            patience=Patience(900.0),
            host_patience=Patience(1800.0),
        )
    )


def wrong(world: World, task: Task) -> list[str]:
    world.time.finish(task)
    assert task.error is None, task.error
    return [str(mismatch) for mismatch in task.result.wrong]


def test_proof_needs_a_heartbeat_and_an_unbroken_period(world):
    begun = world.time.now
    assert wrong(world, begin(world)) == []
    assert 30.0 <= world.time.now - begun <= 40.0


def test_heartbeat_from_before_the_change_proves_nothing(world):
    task = begin(world, ready_after=0.0)
    world.time.run(5.0)
    world.cluster.stop_kubelet(NODE)  # Ready stays True for a while
    assert any(line.startswith("the node's Lease: predicted renewed") for line in wrong(world, task))


def test_unreadable_first_heartbeat_does_not_count(world):
    refusals = [ApiUnreachableError("503")]

    def fault(call: str) -> Exception | None:
        return refusals.pop() if call == "node_heartbeat" and refusals else None

    world.cluster.fault = fault
    task = begin(world, ready_after=0.0)
    world.time.run(1.0)
    assert not refusals
    world.cluster.stop_kubelet(NODE)
    assert any(line.startswith("the node's Lease: predicted renewed") for line in wrong(world, task))


@cases(
    "changes, said",
    {
        "a GPU is missing": ({"nvidia.com/gpu": "7"}, ["Allocatable nvidia.com/gpu: predicted 8, found 7"]),
        "CPUs are not reserved": ({"cpu": "64"}, ["Allocatable cpu: predicted 60, found 64"]),
        "the same quantity in other words": ({"cpu": "60000m"}, []),
    },
)
def test_allocatable_must_match_the_prediction(world, changes, said):
    assert wrong(world, begin(world, **changes)) == said


GIB = 2**30
BOOTED = replace(EXPECTED, allocatable={"memory": "500Gi"}, memory_bytes=512 * GIB)


@pytest.mark.parametrize(
    ("capacity", "found", "as_predicted"),
    [
        pytest.param(512 * GIB, 500 * GIB, True, id="the-memory-of-the-plan"),
        pytest.param(512 * GIB, 500 * GIB - 8192, False, id="more-is-kept-back-of-the-same-memory"),
        pytest.param(512 * GIB + 8192, 500 * GIB + 8192, True, id="a-boot-gives-8-KiB"),
        pytest.param(512 * GIB - 2**20, 500 * GIB - 2**20, True, id="a-boot-takes-a-MiB"),
        pytest.param(512 * GIB - 2**20, 500 * GIB - 996147, True, id="a-threshold-in-percent-takes-its-part"),
        pytest.param(512 * GIB - 2**20, 500 * GIB - 2 * 2**20, False, id="more-is-taken-than-the-boot-takes"),
        pytest.param(496 * GIB, 484 * GIB, False, id="a-DIMM-is-missing"),
    ],
)
def test_memory_may_differ_only_by_boot_variation(world, capacity, found, as_predicted):
    world.cluster.change_node(NODE, capacity={"memory": f"{capacity}"})
    said = wrong(world, begin(world, expected=BOOTED, memory=f"{found}"))
    predicted = [] if as_predicted else [f"Allocatable memory: predicted 500Gi, found {found}"]
    assert said == predicted


@cases("advertised, said", CASES["resource_names"])
def test_resource_names_must_match_the_plan(world, advertised, said):
    assert wrong(world, begin(world, expected=CUT, **advertised)) == said


def test_proof_waits_for_late_device_plugin(world):
    task = begin(world, expected=CUT, **{"nvidia.com/gpu": "0"})
    world.time.run(55.0)
    world.cluster.change_node(NODE, allocatable={**OFFERED, **MIG})
    begun = world.time.now
    assert wrong(world, task) == []
    assert world.time.now - begun >= 20.0


def test_unhealthy_devices_are_distinguished_from_missing_devices(world):
    task = begin(world, **{"nvidia.com/gpu": "7"})
    world.cluster.change_node(NODE, capacity={"nvidia.com/gpu": "8"})
    assert wrong(world, task) == [
        "Allocatable nvidia.com/gpu: predicted 8, found 7, the other devices of 8 are unhealthy"
    ]


def test_proof_ends_at_deadline_not_earlier(world):
    begun = world.time.now
    wrong(world, begin(world, cpu="64"))
    assert 60.0 <= world.time.now - begun <= 62.0


def test_kubelet_restart_ends_the_proof_at_once(world):
    task = begin(world)
    world.time.run(10.0)
    world.machine.restart()
    begun = world.time.now
    assert "it ended by itself and was restarted" in wrong(world, task)[0]
    assert world.time.now - begun <= 2.0


@pytest.mark.parametrize(
    ("end", "said", "within"),
    [
        pytest.param("crash", "it ended by itself", 2.0, id="it-crashes"),
        pytest.param("stop_by_hand", "it was stopped", 13.0, id="somebody-stops-it"),
    ],
)
def test_kubelet_down_on_running_node_ends_the_proof(world, end, said, within):
    task = begin(world)
    world.time.run(10.0)
    getattr(world.machine, end)()
    begun = world.time.now
    assert wrong(world, task) == [f"the kubelet: predicted running, found {said}"]
    assert world.time.now - begun <= within


IN_ORDER, POWER_CUT = Reboot(), Reboot(in_order=False)
COMES_UP_SECONDS = 11.0
"""After how long a node that has reported its boot is as expected at the latest."""


@pytest.mark.parametrize("moment", [0.0, 5.0, 20.0, 46.0, 51.0, 54.0, 60.0])
def test_node_rebooting_before_its_proof_is_proved(world, moment):
    world.machine.files = NEW
    world.machine.reboot()
    world.time.run(moment)
    assert wrong(world, prove_it(world)) == []


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(replace(IN_ORDER, stopping=400.0), id="it-takes-minutes-to-go-down"),
        pytest.param(replace(POWER_CUT, away=1200.0), id="the-firmware-takes-20-minutes"),
        pytest.param(replace(POWER_CUT, early=400.0), id="the-kubelet-waits-for-other-units-for-minutes"),
        pytest.param(replace(POWER_CUT, away=1.0, early=0.0), id="it-is-back-before-anything-is-noticed"),
    ],
)
def test_slow_or_instant_boot_passes_the_proof(world, how):
    task = begin(world)
    world.time.run(20.0)
    world.machine.reboot(how)
    assert wrong(world, task) == []


@given(
    moment=st.floats(0.0, 31.0),
    how=st.builds(
        Reboot,
        in_order=st.booleans(),
        stops_after=st.floats(0.0, 20.0),
        stopping=st.floats(0.0, 120.0),
        away=st.floats(0.0, 600.0),
        early=st.floats(0.0, 120.0),
        often=st.integers(0, 2),
        reports_after=st.floats(0.0, 10.0),
        registers_after=st.floats(0.0, 15.0),
    ),
)
def test_good_node_rebooting_once_is_never_rolled_back(moment, how):
    world = World()
    task = begin(world)
    world.time.run(moment)
    world.machine.reboot(how)
    assert wrong(world, task) == []
    assert world.time.now - world.machine.running_since >= SETTINGS.stable_seconds


@given(
    moment=st.floats(4.0, 12.0),
    how=st.none() | st.builds(Reboot, in_order=st.booleans(), away=st.floats(0.0, 600.0)),
    crash=st.sampled_from(["crash", "restart", "stop_by_hand"]),
)
def test_kubelet_exit_without_node_reboot_fails_the_proof(moment, how, crash):
    world = World()
    task = begin(world)
    if how is not None:
        world.time.run(5.0)
        world.machine.reboot(how)
        world.time.run(lambda: world.cluster.node(NODE).boot_id.startswith("boot-2"))
        world.time.run(COMES_UP_SECONDS)
    world.time.run(moment)
    assert not task.ended
    getattr(world.machine, crash)()
    assert wrong(world, task)[0].startswith("the kubelet: predicted running")


def test_kubelet_never_starting_after_boot_fails_at_deadline(world):
    task = begin(world)
    world.time.run(20.0)
    world.machine.reboot(replace(POWER_CUT, often=1000))
    booted = world.time.now + POWER_CUT.away
    (line,) = wrong(world, task)
    assert line.startswith("the kubelet: predicted running") or "of another one" in line
    assert SETTINGS.ready_timeout <= world.time.now - booted <= 2 * SETTINGS.ready_timeout


def test_devices_not_registered_since_the_boot_prove_nothing(world):
    task = begin(world)
    world.time.run(20.0)
    world.machine.reboot(replace(POWER_CUT, away=5.0, early=0.0, registers_after=40.0))
    world.time.run(lambda: world.machine.running_since > 0.0)
    assert wrong(world, task) == []
    assert world.time.now - world.machine.running_since >= 40.0 + SETTINGS.stable_seconds


def test_node_status_from_before_the_boot_proves_nothing(world):
    task = begin(world)
    world.time.run(20.0)
    world.machine.reboot(replace(POWER_CUT, away=5.0, early=0.0, reports_after=500.0))
    world.time.finish(task)
    boot = world.machine.process()
    assert wrong(world, task) == [
        f"the node's status: predicted of the boot at {boot.booted}, found of another one"
    ]


def test_node_rebooting_twice_fails_the_proof(world):
    task = begin(world)
    for _ in range(2):
        world.time.run(10.0)
        world.machine.reboot(POWER_CUT)
        world.time.run(POWER_CUT.away + POWER_CUT.early)
    world.time.finish(task)
    booted = world.machine.process().booted
    assert wrong(world, task) == [f"the node: predicted up, found it rebooted again at {booted}"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        pytest.param(replace(IN_ORDER, stopping=3600.0), "the node is going down", id="down"),
        pytest.param(replace(POWER_CUT, early=3600.0), "the kubelet: it has not been started since", id="up"),
    ],
)
def test_silent_node_is_waited_for_half_an_hour(world, how, said):
    task = begin(world)
    world.time.run(20.0)
    world.machine.reboot(how)
    begun = world.time.now
    world.time.finish(task)
    assert isinstance(task.error, HostUnreachableError)
    assert said in task.error.message
    assert 1800.0 <= world.time.now - begun <= 1900.0


def test_lost_ready_restarts_the_stable_time(world):
    task = begin(world)
    begun = world.time.now
    world.time.run(25.0)
    world.cluster.change_node(NODE, ready=False, ready_message="PLEG is not healthy")
    world.time.run(4.0)
    world.cluster.change_node(NODE, ready=True)
    assert wrong(world, task) == []
    assert world.time.now - begun >= 49.0


def test_flicker_at_the_deadline_passes_and_endless_flicker_fails(world):
    task = begin(world)
    begun = world.time.now
    while not task.ended:
        world.cluster.change_node(NODE, ready=False, ready_message="PLEG is not healthy")
        world.time.run(3.0)
        world.cluster.change_node(NODE, ready=True)
        world.time.run(3.0)
    assert wrong(world, task) == ["the Ready condition: predicted True, found PLEG is not healthy"]
    assert 120.0 <= world.time.now - begun <= 132.0


@pytest.mark.parametrize("side", ["the API server", "the host"])
def test_unreachable_api_or_host_costs_node_no_proof_time(world, side):
    task = begin(world)
    world.time.run(25.0)
    if side == "the API server":
        world.cluster.fault = lambda _: ApiUnreachableError("503")
    else:
        world.machine.fault = lambda _: HostUnreachableError("no route")
    world.time.run(300.0)
    world.cluster.fault = world.machine.fault = None
    assert wrong(world, task) == []


def silent(call: str) -> Exception | None:
    return SilentKubeletError("refused") if call == "running_config" else None


def test_time_blocked_on_frozen_host_counts_towards_deadline(world):
    task = begin(world)
    world.time.run(20.0)

    def frozen(_: str) -> Exception:
        world.time.now += 120.0
        return HostUnreachableError("no answer within 120 s")

    world.machine.fault = frozen
    begun = world.time.now
    world.time.finish(task)
    assert isinstance(task.error, HostUnreachableError)
    assert 1800.0 <= world.time.now - begun <= 2000.0


def waiting_for_gpus() -> tuple[World, Task, list[float]]:
    """Return a node whose GPUs are not offered yet, and when its kubelet is asked what it runs with."""
    world = World()
    times: list[float] = []

    def fault(call: str) -> None:
        if call == "running_config":
            times.append(world.time.now)

    world.machine.fault = fault
    task = begin(world, **{"nvidia.com/gpu": "0"})
    world.time.run(25.0)
    assert len(times) == 1
    return world, task, times


def test_configz_is_read_while_plugins_register_and_at_the_end():
    world, task, times = waiting_for_gpus()
    offered = world.time.now
    world.cluster.change_node(NODE, allocatable={**OFFERED, "cpu": "60"})
    assert wrong(world, task) == []
    assert len(times) == 2
    assert times[0] < offered < times[1] == world.time.now


def test_kubelet_restarted_by_a_boot_is_asked_for_its_configuration_again():
    world, task, times = waiting_for_gpus()
    world.machine.reboot()
    world.time.run(25.0)
    assert len(times) == 1
    assert wrong(world, task) == []
    assert len(times) == 3


@pytest.mark.parametrize(
    ("answers_after", "rests"),
    [
        pytest.param(0.0, 2.0, id="at once"),
        pytest.param(0.5, 1.5, id="its answer is part of the time"),
        pytest.param(3.0, 1.0, id="a slow one is left alone all the same"),
    ],
)
def test_pause_between_host_queries(world, answers_after, rests):
    begun, ended = [], []

    def fault(call: str) -> None:
        if call == "process":
            begun.append(world.time.now)
            world.time.now += answers_after / 2  # before and after it
            ended.append(world.time.now)

    world.machine.fault = fault
    assert wrong(world, begin(world)) == []
    assert {later - earlier for earlier, later in zip(ended[1::2], begun[2::2], strict=False)} == {rests}


@cases("seconds", {"at once": 0.0, "within the stable time": 15.0})
def test_kubelet_silent_while_the_api_server_answers_fails_the_node(world, seconds):
    task = begin(world)
    world.time.run(seconds)
    world.machine.fault = silent
    assert wrong(world, task) == ["/configz: predicted an answer, found refused"]


def test_api_outage_seen_by_kubelet_costs_node_no_proof_time(world):
    task = begin(world)
    world.time.run(25.0)
    world.machine.fault = silent
    world.cluster.fault = lambda _: ApiUnreachableError("503")
    world.time.run(300.0)
    world.machine.fault = world.cluster.fault = None
    assert wrong(world, task) == []


NOT_ITS_OWN = "the kubelet refuses it to its own node (403)"


def test_configz_refused_to_node_is_read_through_api_server(world):
    world.trouble(unreadable=NOT_ITS_OWN)
    task = begin(world)
    world.cluster.start_kubelet(NODE, config={"cpuManagerPolicy": "none"})
    assert wrong(world, task) == ["cpuManagerPolicy: predicted 'static', found 'none'"]


def test_configz_failing_behind_reachable_api_fails_the_proof(world):
    world.trouble(unreadable=NOT_ITS_OWN)
    task = begin(world)
    world.cluster.fault = lambda call: ApiUnreachableError("502") if call == "running_config" else None
    assert wrong(world, task) == ["/configz: predicted an answer, found 502"]


def test_node_reading_its_own_configz_needs_no_login_permission(world):
    world.cluster.denied.add("get nodes/proxy")
    assert wrong(world, begin(world)) == []
    assert world.cluster.calls["running_config"] == 0


def test_temporary_permission_loss_costs_node_no_proof_time():
    """A kubelet asks the API server who may read; one that starts permits nothing."""
    world = World()
    task = begin(world)
    world.time.run(25.0)
    world.trouble(unreadable=NOT_ITS_OWN)
    world.cluster.denied.add("get nodes/proxy")
    world.time.run(300.0)
    world.trouble()
    assert wrong(world, task) == []


def test_missing_permissions_count_as_no_answer_and_name_the_grant(world):
    task = begin(world)
    world.trouble(unreadable=NOT_ITS_OWN)
    world.cluster.denied.add("get nodes/proxy")
    world.time.finish(task)
    assert isinstance(task.error, ApiUnreachableError)
    assert "refuses it to its own node (403); may not get nodes/proxy" in str(task.error)
    assert "nodes/configz" in str(task.error)


def test_kubelet_with_another_configuration_fails_the_gate(world):
    task = begin(world)
    world.cluster.start_kubelet(NODE, config={"cpuManagerPolicy": "none"})
    assert wrong(world, task) == ["cpuManagerPolicy: predicted 'static', found 'none'"]
