"""Three real API servers, each with its own member of etcd: no virtual machine, and kwok's nodes."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from lab.controlplanes import ADDRESSES, ControlPlanes
from numaforge.rollout.budget import Budget, Share
from numaforge.rollout.cluster import Cluster
from numaforge.rollout.fleet import Fleet, FleetReport, FleetSettings, Member
from numaforge.rollout.gate import GateSettings
from numaforge.rollout.kubectl import KubectlCluster
from numaforge.rollout.node import NodeRollout
from numaforge.rollout.outcome import NodeSettings, Progress
from numaforge.rollout.record import Ending
from numaforge.rollout.steps import run
from tests.fixtures.control_plane_contract import ControlPlaneContract, ThreeControlPlanes
from tests.lab.fleet import Observer, ScriptedMachine, Thread, briefly

FIRST, SECOND, THIRD = ADDRESSES
PATIENCE_S = 240


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlanes]:
    with ControlPlanes(tmp_path_factory.mktemp("planes")) as planes:
        yield planes


@pytest.fixture(scope="module")
def cluster(planes: ControlPlanes) -> Iterator[KubectlCluster]:
    with KubectlCluster(planes.kubeconfig, kubectl=str(planes.kubectl())) as cluster:
        yield cluster


class RealControlPlanes(ThreeControlPlanes):
    second = SECOND

    def __init__(self, planes: ControlPlanes, cluster: KubectlCluster) -> None:
        self.planes = planes
        self.cluster: Cluster = cluster
        self.opened = ExitStack()

    def until(self, holds: Callable[[], bool]) -> None:
        self.planes.wait_until(holds, "it does not come about")

    def stop_etcd(self) -> None:
        self.planes.stop_etcd(SECOND)

    def stop_api_server(self) -> None:
        self.planes.stop_api_server(SECOND)

    def start_all(self) -> None:
        self.planes.start_all()
        self.until(lambda: [server.ready for server in self.cluster.api_servers()] == [True] * 3)

    def without_permission(self) -> Cluster:
        login = self.planes.login("nobody")
        return self.opened.enter_context(KubectlCluster(login, kubectl=str(self.planes.kubectl())))


class TestControlPlanes(ControlPlaneContract):
    @pytest.fixture
    def world(self, planes: ControlPlanes, cluster: KubectlCluster) -> Iterator[RealControlPlanes]:
        world = RealControlPlanes(planes, cluster)
        with world.opened:
            yield world


# ---- a roll-out over the three ----


@dataclass
class Story:
    """A roll-out of the three nodes with room in the budget for all, and what it says of itself.

    `at` is the call of a machine, by node, at which something happens once.
    """

    planes: ControlPlanes
    cluster: KubectlCluster
    at: dict[tuple[str, str], Callable[[], object]] = field(default_factory=dict)
    report: FleetReport | None = None
    told: list[Progress] = field(default_factory=list)
    heard: threading.Condition = field(default_factory=threading.Condition)

    def begin(self) -> threading.Thread:
        """Begin it, in a thread of its own."""
        budget = Budget(Share(count=3))
        fleet = Fleet(
            cluster=self.cluster,
            members=[Member(name, name, control_plane=True) for name in ADDRESSES],
            settings=FleetSettings(budget=budget, canaries=0),
            launch=lambda member: self._launch(member, budget),
            clock=time.monotonic,
            tell=lambda _: None,
        )

        def play() -> None:
            self.report = run(fleet.run(), briefly)

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        return thread

    def await_word(self, words: str) -> None:
        """Return when a node says that it waits for something with these words in it."""
        with self.heard:
            said = self.heard.wait_for(
                lambda: any(words in reason for each in self.told for reason in each.waits_for), PATIENCE_S
            )
        assert said, f"nobody says {words}: {self.told}"

    def end(self, thread: threading.Thread) -> FleetReport:
        """Return the report once it has ended, which it must in time."""
        thread.join(PATIENCE_S)
        assert self.report is not None, f"it still goes on: {self.told}"
        return self.report

    def _launch(self, member: Member, budget: Budget) -> Thread:
        settings = NodeSettings(budget=budget, gate=GateSettings(ready_timeout=120, stable_seconds=0.5))
        machine = ScriptedMachine(asked=lambda call: self._asked(member.node, call))
        runner = f"ann@far/boot/{member.host[-1]}.1"
        return Thread(
            NodeRollout(
                self.cluster, machine, member.node, runner, settings, time.monotonic, tell=self._hear
            ),
            briefly,
        )

    def _asked(self, node: str, call: str) -> None:
        if act := self.at.pop((node, call), None):
            act()

    def _hear(self, progress: Progress) -> None:
        with self.heard:
            self.told.append(progress)
            self.heard.notify_all()


@pytest.fixture
def story(planes: ControlPlanes, cluster: KubectlCluster) -> Story:
    planes.start_all()
    planes.wait_until(
        lambda: [server.ready for server in cluster.api_servers()] == [True] * 3, "is not healthy"
    )
    return Story(planes, cluster)


def stop_etcd(planes: ControlPlanes) -> None:
    planes.stop_etcd(SECOND)


def stop_api_server(planes: ControlPlanes) -> None:
    planes.stop_api_server(SECOND)


@pytest.mark.variants(1)
@pytest.mark.parametrize("stop", [stop_etcd, stop_api_server], ids=["etcd", "API server"])
@pytest.mark.parametrize(
    ("moment", "out"),
    [
        pytest.param(None, set(), id="before anything begins"),
        pytest.param("change", {FIRST}, marks=pytest.mark.long, id="as the first node is looked at"),
        pytest.param("begin", {FIRST}, id="as the first node changes"),
    ],
)
def test_rollout_pauses_while_a_control_plane_member_is_stopped(planes, story, stop, moment, out):
    def stopped() -> None:
        stop(planes)
        second = list(ADDRESSES).index(SECOND)
        planes.wait_until(lambda: not story.cluster.api_servers()[second].ready, "still reads healthy")

    if moment is None:
        stopped()
    else:
        story.at[FIRST, moment] = stopped
    with Observer(planes) as observer:
        thread = story.begin()
        story.await_word("the control plane is not known to be healthy: the API server of cp-2")
        assert {*observer.order} <= out
        planes.start_all()
        report = story.end(thread)
    assert {host: outcome.ending for host, outcome in report.outcomes.items()} == dict.fromkeys(
        ADDRESSES, Ending.DONE
    )
    assert len(observer.most.out) == 1
    assert observer.order == [FIRST, SECOND, THIRD]


def test_rollout_waits_while_its_api_server_is_stopped(planes, story):
    story.at[FIRST, "begin"] = lambda: planes.stop_api_server(FIRST)
    with Observer(planes) as observer:
        thread = story.begin()
        story.await_word("Bad Gateway")
        assert observer.order == [FIRST]
        planes.start_all()
        report = story.end(thread)
    assert {outcome.ending for outcome in report.outcomes.values()} == {Ending.DONE}
    assert len(observer.most.out) == 1
