"""Which pods go, which stay, and what is said about those that do not go away."""

import random

import pytest

from numaforge.rollout.cluster import ApiUnreachableError, DisruptionBudget, Owner, Toleration
from numaforge.rollout.drain import Blocker, DrainSettings, drain, selects, sort_pods
from numaforge.rollout.patience import Patience
from tests.fixtures.memory_cluster import UNSCHEDULABLE
from tests.fixtures.rollout_world import NODE, World, pod
from tests.fixtures.tables import cases
from tests.fixtures.virtual_time import Task

WEB = {"matchLabels": {"app": "web"}}
DAEMON = Owner("DaemonSet", "agent", "uid-agent")
TOLERANT = (Toleration(None, "Exists", None, None),)


def begin(world: World, name: str = NODE, told: list | None = None, **settings) -> Task:
    world.cluster.change_node(name, unschedulable=True, taints=(UNSCHEDULABLE,))
    return world.time.spawn(
        drain(
            world.cluster,
            name,
            DrainSettings(**{"timeout_seconds": 120.0, **settings}),
            clock=world.time,
            check=lambda: None,
            tell=lambda blockers: told.append(blockers) if told is not None else None,
            dice=random.Random(1),  # noqa: S311
            patience=Patience(900.0),
        )
    )


def drained(world: World, **settings) -> tuple[Blocker, ...]:
    task = begin(world, **settings)
    world.time.finish(task)
    assert task.error is None, task.error
    return task.result


def left(world: World) -> list[str]:
    return [each.name for each in world.cluster.pods(NODE)]


@cases(
    "fields, settings, where",
    {
        "a controller's pod is evicted": ({}, {}, "evict"),
        "a static pod stays": ({"mirror": True, "owner": None}, {}, None),
        "a DaemonSet's pod stays": ({"owner": DAEMON}, {}, None),
        "a DaemonSet's failed pod is deleted": ({"owner": DAEMON, "phase": "Failed"}, {}, "delete"),
        "a completed pod is deleted": ({"phase": "Succeeded"}, {}, "delete"),
        "a failed pod is, even unmanaged": ({"phase": "Failed", "owner": None}, {}, "delete"),
        "an unmanaged pod is a blocker": ({"owner": None}, {}, "forbidden"),
        "force evicts it": ({"owner": None}, {"force": True}, "evict"),
        "an emptyDir is a blocker": ({"empty_dirs": ("scratch",)}, {}, "forbidden"),
        "its loss can be permitted": ({"empty_dirs": ("scratch",)}, {"delete_empty_dir_data": True}, "evict"),
        "a pod that is ending is waited for": ({"deleting": True}, {}, "wait"),
        "so is an unmanaged one": ({"deleting": True, "owner": None}, {}, "wait"),
        "wait_for leaves a pod to complete": ({}, {"wait_for": {"app": "web"}}, "wait"),
        "wait_for leaves no other pod": ({}, {"wait_for": {"app": "job"}}, "evict"),
    },
)
def test_drain_sorts_pods_by_kind_and_settings(fields, settings, where):
    found = sort_pods([pod("web-1", **fields)], DrainSettings(**settings))
    lists = {name for name in ("evict", "delete", "wait", "forbidden") if getattr(found, name)}
    assert lists == ({where} if where else set())


def test_low_priority_pods_are_evicted_first():
    pods = [pod("plugin", priority=2000), pod("web-2"), pod("web-1")]
    assert [each.name for each in sort_pods(pods, DrainSettings()).evict] == ["web-1", "web-2", "plugin"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        (WEB, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
    ids=str,
)
def test_selector_matches_as_the_api_defines(selector, expected):
    assert selects(selector, {"app": "web"}) is expected


def test_drain_ends_when_pods_are_gone_not_when_evictions_accepted(world):
    world.cluster.shutdown_seconds = 25.0
    begun = world.time.now
    assert drained(world) == ()
    assert left(world) == []
    assert world.time.now - begun >= 25.0
    assert world.cluster.calls["evict"] == 1


def test_pod_recreated_on_another_node_counts_as_gone():
    world = World(pods=[pod("db-0", owner=Owner("StatefulSet", "db", "uid-db"))])
    assert drained(world) == ()


@cases("settings", {"in time": {}, "long before the timeout": {"timeout_seconds": 3600.0}})
def test_pod_recreated_on_the_same_node_blocks_drain(settings):
    world = World(pods=[pod("web-1", tolerations=TOLERANT)])
    begun = world.time.now
    world.cluster._schedulable = lambda: NODE
    (blocker,) = drained(world, **settings)
    assert "its ReplicaSet web re-creates it on this node again and again" in blocker.cause
    assert world.time.now - begun < 60.0


def test_forbidden_pod_ends_drain_before_any_eviction():
    world = World(pods=[pod("web-1"), pod("lonely", owner=None)])
    assert drained(world) == (Blocker("default/lonely", "nothing would re-create it (permit: force)"),)
    assert world.cluster.calls["evict"] == 0


def test_stuck_finalizer_is_named_at_deadline():
    world = World(pods=[pod("web-1", finalizers=("example.com/never",))])
    begun = world.time.now
    (blocker,) = drained(world)
    assert blocker.cause == "it is deleted, and waits for its finalizer example.com/never"
    assert 120.0 <= world.time.now - begun <= 122.0


def test_long_grace_period_extends_drain_deadline():
    world = World(pods=[pod("web-1", grace_seconds=3600, finalizers=("example.com/never",))])
    begun = world.time.now
    drained(world, timeout_seconds=None)
    assert 3660.0 <= world.time.now - begun <= 3662.0


def test_both_blocking_budgets_are_named(world):
    for name in ("a", "b"):
        world.cluster.set_budget(DisruptionBudget("default", name, WEB, 1, 2, 1))
    (blocker,) = drained(world)
    assert blocker.cause == "more than one PodDisruptionBudget selects it: default/a, default/b"


def test_budget_created_during_drain_is_respected():
    world = World(pods=[pod("web-1"), pod("web-2")])
    world.cluster.set_budget(DisruptionBudget("default", "web", WEB, 1, 2, 1))
    world.cluster._schedulable = lambda: None  # nothing can replace them
    told = []
    task = begin(world, told=told)
    world.time.finish(task)
    (blocker,) = task.result
    assert blocker.cause.startswith("PodDisruptionBudget default/web allows 0 disruptions (1 of 1")
    assert len(left(world)) == 1


def test_refusing_webhook_is_quoted(world):
    world.cluster.webhook = lambda _: "denied: training until Friday"
    assert drained(world)[0].cause == "denied: training until Friday"


def test_refused_evictions_are_retried_with_backoff(world):
    world.cluster.set_budget(DisruptionBudget("default", "web", WEB, 0, 1, 1))
    drained(world)
    assert 5 <= world.cluster.calls["evict"] <= 8


def test_throttling_holds_back_every_drain():
    world = World(nodes=8, pods=[pod(f"web-{n}-{m}", f"node-000{n}") for n in range(8) for m in range(20)])
    world.cluster.throttled_until = world.time.now + 60.0
    tasks = [begin(world, f"node-000{n}") for n in range(8)]
    world.cluster.calls.clear()
    world.time.run(59.0)
    assert world.cluster.calls["evict"] <= 8 * 60 / 5 + 8
    world.time.finish(*tasks)
    assert [task.result for task in tasks] == [()] * 8


def test_api_outage_does_not_count_towards_drain_deadline(world):
    world.cluster.shutdown_seconds = 30.0
    task = begin(world)
    world.time.run(4.0)
    world.cluster.fault = lambda _: ApiUnreachableError("connection refused")
    world.time.run(600.0)
    world.cluster.fault = None
    world.time.finish(task)
    assert task.result == ()


def test_persistent_api_outage_ends_drain(world):
    task = begin(world)
    world.cluster.fault = lambda _: ApiUnreachableError("connection refused")
    world.time.finish(task)
    assert isinstance(task.error, ApiUnreachableError)
