"""What goes wrong while a node is changed: a real control plane, kwok's nodes, and no machine behind them.

Everybody here logs in with the role that the documentation gives to roll-outs.
"""

import contextlib
import itertools
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lab.kwok import ZONE, Fleet
from lab.paths import REPOSITORY
from lab.process import Daemon
from numaforge.rollout.budget import Budget, Share
from numaforge.rollout.cluster import ApiUnreachableError, ClusterPod
from numaforge.rollout.drain import DrainSettings
from numaforge.rollout.gate import Expected, GateSettings
from numaforge.rollout.kubectl import KubectlCluster
from numaforge.rollout.names import DEFAULT_NAME
from numaforge.rollout.node import NodeRollout
from numaforge.rollout.outcome import NodeSettings, Outcome, Progress
from numaforge.rollout.record import MARK, Ending, ask_to_abort
from numaforge.rollout.runner import this_runner
from numaforge.rollout.slots import held_slots
from tests.fixtures.processes import halted
from tests.fixtures.tables import cases
from tests.fixtures.virtual_time import Killed
from tests.lab.fleet import Observer, ScriptedMachine, Thread, briefly
from tests.lab.front import Front

NODES = "/api/v1/nodes"
APPS = "/apis/apps/v1/namespaces/default"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ANN, BOB = "ann@elsewhere/boot/1.1", "bob@elsewhere/boot/2.2"
DEAD = f"{this_runner()}0"
"""A process of this machine that does not live: it has the PID of one that began at another time."""
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"test/apart": "yes"}}}
        ]
    }
}
"""The affinity of pods of which every node gets one."""
"""A drain that does not heed its own deadline waits ten minutes."""
_zones = itertools.count()


def die() -> None:
    raise Killed


@dataclass
class Play:
    """The roll-out of one node in a thread of its own, and what it has told, with the time.

    `at` says what happens when it first tells of a phase; it does not go on before that has happened.
    """

    at: dict[str, Callable[[], object]]
    told: list[tuple[float, Progress]] = field(default_factory=list)
    thread: Thread = field(init=False)

    def tell(self, progress: Progress) -> None:
        self.told.append((time.monotonic(), progress))
        if (happens := self.at.pop(progress.phase, None)) is not None:
            happens()

    def end(self, patience_s: float = 240) -> Outcome:
        outcome = self.thread.end(patience_s)
        assert outcome is not None, "it was killed"
        return outcome

    def seconds(self, first: str, last: str) -> float:
        """Return how long it took from one phase to another."""
        began = {progress.phase: at for at, progress in reversed(self.told)}
        return began[last] - began[first]

    def waited_for(self, pattern: str) -> bool:
        return any(re.search(pattern, reason) for _, progress in self.told for reason in progress.waits_for)


@dataclass
class Scene:
    """The nodes of one test, in a zone of their own, and what runs on them."""

    fleet: Fleet
    cluster: KubectlCluster
    zone: str
    nodes: list[str] = field(default_factory=list)

    @property
    def node(self) -> str:
        """The node that is rolled out."""
        return self.nodes[0]

    def add_node(self) -> str:
        name = f"{self.zone}-node-{len(self.nodes)}"
        self.fleet.add_node(name, zone=self.zone)
        self.nodes.append(name)
        return name

    def run(
        self,
        app: str,
        replicas: int = 1,
        *,
        kind: str = "Deployment",
        finalizers: Sequence[str] = (),
        **pod_spec: Any,
    ) -> list[ClusterPod]:
        """Run pods on the nodes that there are, and return them."""
        name = f"{self.zone}-{app}"
        spec = {
            "containers": [{"name": "main", "image": "none"}],
            "nodeSelector": {ZONE: self.zone},
            "terminationGracePeriodSeconds": 1,
            **pod_spec,
        }
        metadata = {"labels": {"app": name, "test/apart": "yes"}, "finalizers": list(finalizers)}
        workload = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": spec},
        }
        self.fleet.send("POST", f"{APPS}/{kind.lower()}s", {"metadata": {"name": name}, "spec": workload})
        self.until(lambda: [pod.phase for pod in self.pods(app)] == ["Running"] * replicas)
        return self.pods(app)

    def pods(self, app: str) -> list[ClusterPod]:
        name = f"{self.zone}-{app}"
        return [
            pod for node in self.nodes for pod in self.cluster.pods(node) if pod.labels.get("app") == name
        ]

    def add_budget(self, name: str, app: str, max_unavailable: int) -> str:
        """Create a PodDisruptionBudget, and return its full name once it has counted."""
        name = f"{self.zone}-{name}"
        self.fleet.add_budget(name, {"app": f"{self.zone}-{app}"}, max_unavailable)

        def counted() -> bool:
            found = self.fleet.get(f"{BUDGETS}/{name}")
            return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])

        self.until(counted)
        return f"default/{name}"

    def change_node(self, change: Mapping[str, Any]) -> None:
        """Change the node as somebody else."""
        self.fleet.patch(f"{NODES}/{self.node}", change)

    def delete_node(self) -> None:
        self.fleet.send("DELETE", f"{NODES}/{self.node}")

    def begin(
        self,
        runner: str = ANN,
        *,
        node: str | None = None,
        machine: ScriptedMachine | None = None,
        at: Mapping[str, Callable[[], object]] | None = None,
        cluster: KubectlCluster | None = None,
        budget: Budget | None = None,
        drain_timeout: float = 60.0,
        unreachable_timeout: float = 900.0,
        sleep: Callable[[float], object] = briefly,
    ) -> Play:
        """Begin to roll out a node: where none is named, the first one, within a budget of all nodes."""
        play = Play(dict(at or {}))
        settings = NodeSettings(
            budget=budget or Budget(Share(percent=100), pool=""),
            drain=DrainSettings(timeout_seconds=drain_timeout),
            gate=GateSettings(ready_timeout=60, stable_seconds=0.5),
            unreachable_timeout=unreachable_timeout,
        )
        rollout = NodeRollout(
            cluster or self.cluster,
            machine or ScriptedMachine(),
            node or self.node,
            runner,
            settings,
            time.monotonic,
            tell=play.tell,
        )
        play.thread = Thread(rollout, sleep)
        return play

    def slots(self) -> list[str]:
        """Return which of the nodes hold a slot."""
        return [slot.node for slot in held_slots(self.cluster.leases()) if slot.node in self.nodes]

    def free(self, node: str | None = None) -> bool:
        """Say whether a node is in service, and nothing of a roll-out is left with it."""
        found = self.cluster.node(node or self.node)
        left = found.unschedulable or MARK in found.annotations or found.name in self.slots()
        return found.ready and not left

    def until(self, holds: Callable[[], bool]) -> None:
        self.fleet.wait_until(holds, "does not come to be what the test needs")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A control plane with kwok, whose nodes renew their Leases every second."""
    with Fleet(tmp_path_factory.mktemp("fleet"), lease_seconds=4) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def cluster(fleet: Fleet) -> Iterator[KubectlCluster]:
    kubectl = str(fleet.control_plane.kubectl())

    def administrate(*arguments: str) -> str:
        command = [kubectl, f"--kubeconfig={fleet.kubeconfig}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    administrate("apply", f"--filename={REPOSITORY / 'docs' / 'rollout-rbac.yaml'}")
    token = administrate("create", "token", "numaforge-rollout", "--namespace=numaforge")
    login = fleet.login("rollout", token=token)
    with KubectlCluster(login, kubectl=kubectl, request_seconds=5) as cluster:
        yield cluster


@pytest.fixture
def scene(fleet: Fleet, cluster: KubectlCluster) -> Iterator[Scene]:
    """One node; what a test leaves of it takes no room from the others."""
    scene = Scene(fleet, cluster, f"scene-{next(_zones)}")
    scene.add_node()
    yield scene
    fleet.send("DELETE", f"{NODES}?labelSelector={ZONE.replace('/', '%2F')}%3D{scene.zone}")


# What keeps pods from going.


# Somebody interferes.


def runs_again(scene: Scene, app: str) -> Callable[[], None]:
    """Return what uncordons a node as a second admin would, and has a pod run on it again."""

    def uncordon() -> None:
        scene.change_node({"spec": {"unschedulable": None}})
        scene.run(app)

    return uncordon


@pytest.mark.variants(1)
@pytest.mark.parametrize("abort", [False, True], ids=["resume", "abort"])
@cases(
    "phase, machine",
    {
        "applied": ("proves", ScriptedMachine()),
        "undoing": ("undoing", ScriptedMachine(unverified=("CPU 3 is not isolated",))),
    },
)
def test_uncordoned_held_node_is_drained_before_resume_or_abort(scene, phase, machine, abort):
    machine = replace(machine, seconds=0.1)
    held = scene.begin(DEAD, machine=machine, at={phase: runs_again(scene, "came")}).end()
    assert held.ending is Ending.HELD
    assert "resume or abort, which first cordons and drains it again" in held.reason
    [pod] = scene.pods("came")
    spare = scene.add_node()
    stopped_under: list[ClusterPod] = []

    def disturbs(call: str) -> None:
        if call in ("begin", "revert", "settle"):
            stopped_under.extend(found for found in scene.pods("came") if found.node == scene.node)

    machine.asked = disturbs
    if abort:
        ask_to_abort(scene.cluster, scene.node, DEFAULT_NAME, "carol")
    outcome = scene.begin(BOB, machine=machine).end()
    assert outcome.ending in (Ending.DONE, Ending.ROLLED_BACK, Ending.ABORTED), outcome
    assert stopped_under == []
    scene.until(lambda: [found.node for found in scene.pods("came")] == [spare])
    assert pod.uid not in [found.uid for found in scene.pods("came")]
    assert scene.free()


# What a kubelet may write of its own Node.

FORGED = {
    "numaforge.io/record": '{"version":1,"runner":"ann","phase":"verified","was_unschedulable":false,'
    '"labels":{"node-restriction.kubernetes.io/tenant":"trusted"}}',
    "numaforge.io/rollout": "numaforge-node-x 0000000000000000",
    "numaforge.io/rollout-result": '{"ending":"done","reason":"","runner":"ann","cordon left to":"me"}',
    "numaforge.io/rollout-abort": "the kubelet",
    "numaforge.io/abort": "the kubelet",
    "numaforge.io/labels-before": '{"node-restriction.kubernetes.io/tenant":{"value":"a","before":"b"}}',
}


@pytest.mark.parametrize("quarantined", [False, True], ids=["in-service", "in-quarantine"])
def test_runner_ignores_annotations_written_by_a_kubelet(scene, quarantined):
    kubelet = scene.fleet.login(f"system:node:{scene.node}", organization="system:nodes")
    if quarantined:
        scene.change_node({"spec": {"unschedulable": True}})
    before = scene.cluster.node(scene.node)
    with KubectlCluster(kubelet, kubectl=str(scene.fleet.control_plane.kubectl())) as cluster:
        cluster.patch_node(cluster.node(scene.node), annotations=FORGED)
    machine = ScriptedMachine()
    outcome = scene.begin(machine=machine).end()
    node = scene.cluster.node(scene.node)
    assert (outcome.ending, len(machine.begun)) == ((Ending.BLOCKED, 0) if quarantined else (Ending.DONE, 1))
    assert (node.unschedulable, node.labels) == (quarantined, before.labels)
    assert FORGED.items() - node.annotations.items() <= {("numaforge.io/rollout", FORGED[MARK])}


def test_documented_role_suffices_to_set_and_restore_labels(scene):
    scene.change_node({"metadata": {"labels": {"nvidia.com/device-plugin.config": "big"}}})
    wanted = {"nvidia.com/device-plugin.config": "small", "numaforge.io/mig": "mig-enabled"}
    machine = ScriptedMachine(wanted=Expected(labels=wanted))
    assert scene.begin(machine=machine).end().ending is Ending.DONE
    assert wanted.items() <= scene.cluster.node(scene.node).labels.items()
    machine.wanted = Expected(labels={})
    assert scene.begin(BOB, machine=machine).end().ending is Ending.DONE
    labels = scene.cluster.node(scene.node).labels
    assert (labels["nvidia.com/device-plugin.config"], "numaforge.io/mig" in labels) == ("big", False)


# Runners that die, and two at a time.


def _dies_asking(call: str, nth: int) -> Callable[[str], None]:
    """Return who kills the runner when it makes a call of its machine for the n-th time."""
    count = itertools.count(1)

    def asked(name: str) -> None:
        if name == call and next(count) == nth:
            raise Killed

    return asked


def test_rollout_is_resumed_after_its_runner_dies_in_any_phase(scene):
    wrong = ("CPU 3 is not isolated",)
    machines = {
        "it holds a slot": ScriptedMachine(asked=_dies_asking("change", 2)),
        "cordoned": ScriptedMachine(),
        "drains": ScriptedMachine(),
        "drained": ScriptedMachine(),
        "it is about to begin": ScriptedMachine(asked=_dies_asking("begin", 1)),
        "applying": ScriptedMachine(),
        "applied": ScriptedMachine(),
        "proves": ScriptedMachine(),
        "verifies": ScriptedMachine(),
        "verified": ScriptedMachine(),
        "undoing": ScriptedMachine(unverified=wrong),
    }
    nodes = {"it holds a slot": scene.node} | {phase: scene.add_node() for phase in list(machines)[1:]}
    scene.run("web", len(nodes), affinity=APART)
    first = [
        scene.begin(DEAD, node=nodes[phase], machine=machine, at={phase: die})
        for phase, machine in machines.items()
    ]
    assert [play.thread.end() for play in first] == [None] * len(machines), "all are dead"
    assert sorted(scene.slots()) == sorted(nodes.values())
    second = {
        phase: scene.begin(BOB, node=nodes[phase], machine=machine) for phase, machine in machines.items()
    }
    endings = {phase: play.end().ending for phase, play in second.items()}
    assert endings == dict.fromkeys(machines, Ending.DONE) | {"undoing": Ending.ROLLED_BACK}
    assert {phase: len(machine.begun) for phase, machine in machines.items()} == dict.fromkeys(machines, 1)
    assert [phase for phase, machine in machines.items() if machine.reverted] == ["undoing"]
    assert [node for node in scene.nodes if not scene.free(node)] == []


def test_two_concurrent_runners_change_a_node_once(scene):
    scene.run("web")
    scene.add_node()
    machine = ScriptedMachine()
    with Observer(scene.fleet) as observer:
        plays = [scene.begin(runner, machine=machine) for runner in (ANN, BOB)]
        endings = [play.end().ending for play in plays]
    assert sorted(endings) == [Ending.DONE, Ending.UNCHANGED]
    assert len(machine.begun) == 1
    assert [moment.out for moment in observer.moments if moment.node == scene.node][-2:] == [
        {scene.node},
        set(),
    ]
    assert scene.free()


@pytest.mark.variants(1)
@pytest.mark.parametrize("pools", [1, 2], ids=["two shards of one pool", "a pool each"])
def test_runners_limited_to_one_node_never_have_two_out_of_service(scene, pools):
    nodes = [scene.node, *(scene.add_node() for _ in range(3))]
    for number, node in enumerate(nodes):
        scene.fleet.patch(f"{NODES}/{node}", {"metadata": {"labels": {"test/pool": f"{number % pools}"}}})
    with Observer(scene.fleet) as observer:
        plays = [
            scene.begin(
                runner=(ANN, BOB)[number % 2],
                node=node,
                budget=Budget(Share(count=1), pool=f"{ZONE}={scene.zone},test/pool={number % pools}"),
            )
            for number, node in enumerate(nodes)
        ]
        endings = [play.end(120).ending for play in plays]
    assert endings == [Ending.DONE] * len(nodes)
    assert len(observer.most.out) == 1
    assert sorted(observer.order) == sorted(nodes)
    assert all(scene.free(node) for node in nodes)


# Nobody answers. What stops the API server comes last: kwok asks it again only after a while.


@contextlib.contextmanager
def etcd_is_frozen(fleet: Fleet) -> Iterator[None]:
    etcd = Daemon("etcd", fleet.state).pid()
    assert etcd is not None
    with halted(etcd):
        yield


@contextlib.contextmanager
def the_api_server_is_stopped(fleet: Fleet) -> Iterator[None]:
    fleet.control_plane.stop_api_server()
    try:
        yield
    finally:
        fleet.control_plane.start_api_server()


@pytest.mark.variants(1)
@cases(
    "away, seconds",
    {
        "etcd is frozen": (etcd_is_frozen, 20.0),
        "the API server is stopped": (the_api_server_is_stopped, 60.0),
    },
)
def test_unreachable_control_plane_undoes_nothing(scene, away, seconds):
    """It goes away when one node is being drained, one changes and one proves itself."""
    phases = ("drains", "applying", "proves")
    nodes = [scene.node, *(scene.add_node() for _ in phases[1:])]
    scene.run("web", len(nodes), affinity=APART)
    arrived, gone = threading.Barrier(len(phases) + 1), threading.Event()

    def wait() -> None:
        arrived.wait(60)
        gone.wait(60)

    machines = [ScriptedMachine() for _ in phases]
    plays = [
        scene.begin(node=node, machine=machine, at={phase: wait})
        for node, machine, phase in zip(nodes, machines, phases, strict=True)
    ]
    arrived.wait(60)
    with away(scene.fleet):
        gone.set()
        time.sleep(seconds)
    outcomes = [play.end(90) for play in plays]
    assert [outcome.ending for outcome in outcomes] == [Ending.DONE] * len(phases), outcomes
    assert all(play.waited_for(r"has no answer|\(50[034]\)") for play in plays)
    assert [(len(machine.begun), machine.reverted) for machine in machines] == [(1, {})] * len(phases)
    scene.until(lambda: all(scene.free(node) for node in scene.nodes))


@pytest.mark.variants(1)
@pytest.mark.parametrize("phase", ["drains", "applying", "proves"])
def test_temporarily_refused_login_undoes_nothing(scene, tmp_path, phase):
    """An API server that starts answers 401 while it cannot reach who issues the tokens."""
    scene.run("web")
    machine = ScriptedMachine()
    with Front(scene.fleet.control_plane, tmp_path) as front:
        refused: list[str] = []

        def refuses(_method: str, path: str) -> bool:
            refused.append(path)
            return len(refused) < 60

        def begin() -> None:
            front.refuses = refuses

        kubectl = str(scene.fleet.control_plane.kubectl())
        with KubectlCluster(front.kubeconfig, kubectl=kubectl) as cluster:
            play = scene.begin(cluster=cluster, machine=machine, at={phase: begin})
            outcome = play.end()
    assert outcome.ending is Ending.DONE, outcome
    assert len(refused) >= 60
    assert play.waited_for(r"does not accept this login now: Unauthorized \(401\)")
    assert (len(machine.begun), machine.reverted) == (1, {})
    assert scene.free()


@pytest.mark.variants(1)
@pytest.mark.parametrize("phase", ["drains", "proves"])
def test_expired_login_leaves_node_as_is_and_is_reported(scene, tmp_path, phase):
    scene.run("web")
    machine = ScriptedMachine()
    with Front(scene.fleet.control_plane, tmp_path) as front:

        def begin() -> None:
            front.refuses = lambda _method, _path: True

        kubectl = str(scene.fleet.control_plane.kubectl())
        with KubectlCluster(front.kubeconfig, kubectl=kubectl) as cluster:
            play = scene.begin(
                DEAD, cluster=cluster, machine=machine, at={phase: begin}, unreachable_timeout=30.0
            )
            outcome = play.end()
    assert outcome.ending is Ending.HELD, outcome
    assert "does not accept this login now: Unauthorized (401)" in outcome.reason
    assert "log in again" in outcome.reason
    assert machine.reverted == {}
    assert MARK in scene.cluster.node(scene.node).annotations
    assert scene.begin(machine=machine).end().ending is Ending.DONE, "it is resumed with another login"


def test_starting_api_server_counts_as_unreachable_not_forbidden(fleet, cluster):
    """It knows its roles only a while after it has begun to answer: until then it forbids everything."""

    def answers() -> bool:
        try:
            cluster.nodes()
            cluster.leases()
        except ApiUnreachableError:
            return False
        return True

    fleet.control_plane.stop_api_server()
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(fleet.control_plane.start_api_server)
        fleet.wait_until(answers, "does not answer")
    starting.result()
