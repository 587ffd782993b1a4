"""Many nodes on a real API server, with pods that really move and budgets that really block.

The nodes are kwok's, so there are no machines behind them: what a machine says is scripted here, and an
observer with a connection of its own counts what is out of service.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lab.kwok import LEASE_SECONDS, ZONE, Fleet
from numaforge.rollout.budget import Budget, Share
from numaforge.rollout.drain import DrainSettings
from numaforge.rollout.fleet import Fleet as FleetRollout
from numaforge.rollout.fleet import FleetReport, FleetSettings, Member
from numaforge.rollout.gate import GateSettings
from numaforge.rollout.kubectl import KubectlCluster
from numaforge.rollout.lead import take_lead
from numaforge.rollout.node import NodeRollout
from numaforge.rollout.outcome import NodeSettings
from numaforge.rollout.record import MARK, Ending, unfinished
from numaforge.rollout.slots import held_slots
from numaforge.rollout.steps import run
from tests.lab.fleet import Observer, ScriptedMachine, Thread, briefly

ZONES = 3
SHARE = Share(percent=10)


@dataclass(frozen=True)
class Size:
    """How many nodes there are, how many of them are rolled out, and how many of a zone at a time.

    `sleep` is how roll-outs wait: many that ask often would have an API server to themselves, as would the
    Leases of many nodes. `lease_seconds` is four times what a roll-out waits for the next one, at most.
    """

    nodes: int
    rolled_out: int
    per_zone: int
    sleep: Callable[[float], object] = time.sleep
    lease_seconds: int = LEASE_SECONDS


SMALL, LARGE = Size(30, 12, 2, briefly, 12), Size(300, 90, 20)


@pytest.fixture(scope="module", params=[SMALL, LARGE], ids=["30", "300"])
def size(request: pytest.FixtureRequest) -> Size:
    found: Size = request.param
    return found


@pytest.fixture(scope="module")
def fleet(size: Size, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet"), lease_seconds=size.lease_seconds) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def nodes(fleet: Fleet, size: Size) -> list[str]:
    """Nodes in three zones, with two pods each on average, of which a tenth may be away at a time."""
    names = fleet.add_nodes(size.nodes, zones=ZONES, prefix="gpu")
    for number in range(10):
        fleet.add_deployment(f"app-{number}", size.nodes * 2 // 10, max_unavailable="10%")
    fleet.await_deployments(300)
    return names


@pytest.fixture
def cluster(fleet: Fleet) -> Iterator[KubectlCluster]:
    with KubectlCluster(fleet.kubeconfig, kubectl=str(fleet.control_plane.kubectl())) as cluster:
        yield cluster


def rollout(
    cluster: KubectlCluster,
    size: Size,
    names: list[str],
    runner: str,
    machines: dict[str, ScriptedMachine],
    **changes: object,
) -> FleetRollout:
    budget = Budget(SHARE, pool="", domain=ZONE, max_unavailable_per_domain=Share(count=size.per_zone))
    settings = NodeSettings(
        budget=budget,
        drain=DrainSettings(timeout_seconds=240),
        gate=GateSettings(ready_timeout=120, stable_seconds=0.5),
    )

    def launch(member: Member) -> Thread:
        machine = machines.setdefault(member.node, ScriptedMachine())
        return Thread(
            NodeRollout(
                cluster, machine, member.node, runner, settings, time.monotonic, tell=lambda _progress: None
            ),
            size.sleep,
        )

    return FleetRollout(
        cluster=cluster,
        members=[Member(name, name) for name in names],
        settings=FleetSettings(**{"budget": budget, "canaries": 2, **changes}),
        launch=launch,
        clock=time.monotonic,
        tell=lambda _reason: None,
        lead=run(take_lead(cluster, runner, runner, {}, go_on=False, clock=time.monotonic)),
    )


def nothing_is_left(fleet: Fleet, cluster: KubectlCluster) -> bool:
    found = fleet.get("/api/v1/nodes")["items"]
    marked = [node for node in found if MARK in node["metadata"].get("annotations", {})]
    cordoned = [node for node in found if node["spec"].get("unschedulable")]
    leases = cluster.leases()
    return not marked and not cordoned and not held_slots(leases) and not unfinished(leases)


@pytest.mark.long
def test_two_shards_of_a_fleet_stay_within_one_budget(fleet, size, nodes, cluster):
    reports: dict[str, FleetReport] = {}

    def play(name: str, shard: list[str]) -> None:
        reports[name] = run(rollout(cluster, size, shard, name, {}).run(), size.sleep)

    with Observer(fleet) as observer:
        shards = [
            threading.Thread(target=play, args=(f"shard-{number}", nodes[number : size.rolled_out : 2]))
            for number in range(2)
        ]
        for shard in shards:
            shard.start()
        for shard in shards:
            shard.join()
    endings = {outcome.ending for report in reports.values() for outcome in report.outcomes.values()}
    assert endings == {Ending.DONE}, [report.outcomes for report in reports.values()]
    assert sum(len(report.outcomes) for report in reports.values()) == size.rolled_out
    assert 1 < len(observer.most.out) <= SHARE.of(size.nodes)
    assert observer.most_zones == 1
    assert all(observer.most_in(f"zone-{zone}") <= size.per_zone for zone in range(ZONES))
    assert nothing_is_left(fleet, cluster)
