"""The control plane as a pool of its own: what is of it, what it can do without, when it is healthy."""

from dataclasses import replace

import pytest

from numaforge.rollout.budget import Budget, Share
from numaforge.rollout.cluster import ClusterNode, ClusterPod, ControlPlaneServer
from numaforge.rollout.control_plane import ControlPlane, is_control_plane
from numaforge.rollout.record import Ending, Phase
from tests.fixtures.memory_cluster import control_planes
from tests.fixtures.memory_machine import NEW, OLD
from tests.fixtures.rollout_world import SETTINGS, World, pod
from tests.fixtures.tables import cases

ROLE = "node-role.kubernetes.io/"
FIRST, SECOND, THIRD = (node.name for node in control_planes(3))


def node(name: str, *roles: str, **fields: object) -> ClusterNode:
    made = ClusterNode(name, f"uid-{name}", "1", labels={f"{ROLE}{role}": "" for role in roles})
    return replace(made, **{"addresses": (name, f"192.0.2.{name[-1]}"), **fields})  # type: ignore[arg-type]


def static(part: str, on: str, **fields: object) -> ClusterPod:
    made = ClusterPod("kube-system", f"{part}-{on}", f"uid-{part}-{on}", on, mirror=True)
    return replace(made, **fields)  # type: ignore[arg-type]


def plane(*nodes: ClusterNode, pods: tuple[ClusterPod, ...] = ()) -> ControlPlane:
    named = {each.name: each for each in nodes}
    return ControlPlane(named, {name: tuple(pod for pod in pods if pod.node == name) for name in named})


def controls(count: int, **fields: object) -> list[ClusterNode]:
    return [node(f"c{number}", "control-plane", **fields) for number in range(1, count + 1)]


def stacked(count: int) -> ControlPlane:
    """A control plane as kubeadm sets it up."""
    nodes = controls(count)
    return plane(
        *nodes, pods=tuple(static(part, n.name) for n in nodes for part in ("kube-apiserver", "etcd"))
    )


def beside_etcd(count: int, *addresses: str) -> ControlPlane:
    """A control plane whose API servers name the members of etcd."""
    nodes, etcd = controls(count), ",".join(f"https://{address}:2379" for address in addresses)
    servers = (static("kube-apiserver", n.name, arguments=(f"--etcd-servers={etcd}",)) for n in nodes)
    return plane(*nodes, pods=tuple(servers))


@cases(
    "roles, expected",
    {
        "control-plane": (("control-plane",), True),
        "master, as before 1.20": (("master",), True),
        "a node of k3s or RKE2 with etcd alone": (("etcd",), True),
        "worker": (("worker",), False),
        "no role": ((), False),
    },
)
def test_control_plane_nodes_are_recognised_by_their_labels(roles, expected):
    assert is_control_plane(node("c1", *roles)) is expected


# ---- what is away without one node ----


VOTERS = controls(2, etcd_voter=True)


@cases(
    "found, said",
    {
        "one node is the API": (stacked(1), "only API server: the API is away"),
        "of two, both are the quorum": (stacked(2), "etcd has 2 members"),
        "of three, two are a quorum": (stacked(3), None),
        "of four, three are a quorum": (stacked(4), None),
        "of five, four are more than a quorum": (stacked(5), None),
        "where nothing shows etcd, it is taken to be on each": (
            plane(*controls(2)),
            "etcd has 2 members, as far as the cluster shows",
        ),
        "etcd alone elsewhere, two API servers": (plane(*controls(2), node("c3", "etcd")), None),
        "the members are those that k3s says vote": (
            plane(*VOTERS, node("c3", "control-plane")),
            "etcd has 2 members",
        ),
        "etcd on machines that are no nodes": (beside_etcd(2, "198.51.100.1"), None),
        "etcd beside Kubernetes on its nodes, as with kubespray": (
            beside_etcd(3, "192.0.2.1", "192.0.2.2"),
            "the cluster does not show whether those are healthy",
        ),
    },
)
def test_restart_of_a_control_plane_node_reports_its_outage(found, said):
    outage = found.outage("c1")
    assert outage is None if said is None else said in str(outage)


# ---- what is known to be healthy ----


SICK_ETCD = (static("etcd", "c1", ready=False), static("kube-apiserver", "c1"))


@cases(
    "found, answers, said",
    {
        "each API server is ready": (stacked(3), (True, True, True), ""),
        "one is not": (stacked(3), (True, False, True), "of c2 (192.0.2.2:6443) is not ready: why"),
        "its own kubelet speaks for one that is out of reach": (stacked(3), (True, None, True), ""),
        "one out of reach that no pod speaks for is unknown": (
            plane(*controls(3)),
            (True, None, True),
            "cannot be asked whether it is ready: why",
        ),
        "one that has gone from the Service": (
            plane(*controls(3)),
            (True, True),
            "of c3 is not among those of the Service kubernetes",
        ),
        "as many as there are nodes, at addresses of their own": (
            plane(*controls(3, addresses=())),
            (True, True, True),
            "",
        ),
        "one on no node is not ready": (
            stacked(3),
            (True, True, True, False),
            "on no known node, is not ready",
        ),
        "a member of etcd is not Ready": (
            plane(*controls(1), pods=SICK_ETCD),
            (True,),
            "kube-system/etcd-c1 is not Ready",
        ),
        "a member that only learns": (
            plane(*controls(1, etcd_voter=False)),
            (True,),
            "the etcd of c1 is not a voting member",
        ),
        "a node that is not Ready": (
            plane(*controls(1, ready=False, ready_message="no word")),
            (True,),
            "c1 is not Ready: no word",
        ),
    },
)
def test_unproven_health_of_the_control_plane_is_reported(found, answers, said):
    servers = [
        ControlPlaneServer(f"192.0.2.{number}", 6443, one, "why") for number, one in enumerate(answers, 1)
    ]
    troubles = [trouble.what for trouble in found.troubles(servers)]
    assert (len(troubles), said in "".join(troubles)) == (1 if said else 0, True)


# ---- a roll-out of its nodes, in virtual time ----


def world(count: int = 3, workers: int = 1) -> World:
    made = World(workers, pods=())
    for each in control_planes(count):
        made.cluster.add_node(each)
    return made


def cordoned(world: World) -> list[str]:
    return [each.name for each in control_planes(3) if world.look(each.name).unschedulable]


def test_control_plane_node_outside_pool_is_changed():
    here = world()
    assert here.run(name=FIRST).ending is Ending.DONE
    assert here.machine_of(FIRST).files == NEW


def test_one_control_plane_node_at_a_time_whatever_the_budget():
    here = world()
    settings = replace(SETTINGS, budget=Budget(Share(count=3)), slot_timeout=6000.0)
    most = []
    here.cluster.watchers.append(lambda _old, _new: most.append(len(cordoned(here))))
    tasks = [here.begin(f"ann@a/boot/{name}.1", name, settings=settings) for name in (FIRST, SECOND, THIRD)]
    assert [here.end(task).ending for task in tasks] == [Ending.DONE] * 3
    assert max(most) == 1


@cases(
    "change, said",
    {
        "not Ready": ({"ready": False, "ready_message": "down"}, "is not Ready: down"),
        "cordoned": ({"unschedulable": True}, "is cordoned"),
        "another tool's": ({"deleting": True}, "is in the maintenance of another tool: its Node object"),
    },
)
def test_no_control_plane_node_begins_while_another_is_out_of_service(change, said):
    here = world()
    here.cluster.change_node(SECOND, **change)
    outcome = here.run(name=FIRST)
    assert outcome.ending is Ending.BLOCKED
    assert f"one node of the control plane at a time, and {SECOND} {said}" in outcome.reason
    assert here.machine_of(FIRST).files == OLD


@pytest.fixture(params=["etcd", "API server"])
def stopped(request: pytest.FixtureRequest) -> World:
    """A world in which another node's member of etcd or API server does not run; `stop` and `start` it."""
    here = world()
    cluster = here.cluster
    if request.param == "etcd":
        here.stop, here.start = lambda: cluster.etcd_stopped.add(SECOND), cluster.etcd_stopped.clear
    else:
        here.stop = lambda: cluster.stop_api_server(SECOND)
        here.start = lambda: cluster.start_api_server(SECOND)
    here.stop()
    return here


def test_stopped_component_pauses_rollout_until_it_returns(stopped):
    task = stopped.begin("ann@a/boot/1.1", FIRST)
    stopped.time.run(100.0)
    assert (cordoned(stopped), stopped.slots(), task.ended) == ([], [], False)
    stopped.start()
    assert stopped.end(task).ending is Ending.DONE


def test_stopped_control_plane_component_blocks_node_and_is_named(stopped):
    outcome = stopped.run(name=FIRST)
    assert outcome.ending is Ending.BLOCKED
    assert "the control plane is not known to be healthy: the API server of" in outcome.reason
    assert cordoned(stopped) == []


def test_component_stopping_during_drain_leaves_node_unchanged(stopped):
    stopped.start()
    stopped.cluster.add_pod(pod("web-1", FIRST))
    task = stopped.begin("ann@a/boot/1.1", FIRST)
    stopped.time.run(lambda: bool(cordoned(stopped)))
    stopped.stop()
    assert stopped.end(task).ending is Ending.BLOCKED
    assert (cordoned(stopped), stopped.machine_of(FIRST).files) == ([], OLD)


def test_node_returns_only_when_whole_control_plane_is_healthy(stopped):
    stopped.start()
    task = stopped.begin("ann@a/boot/1.1", FIRST)
    stopped.time.run(lambda: bool(stopped.machine_of(FIRST).applied))
    stopped.stop()
    stopped.time.run(100.0)
    assert (cordoned(stopped), task.ended) == ([FIRST], False)
    stopped.start()
    assert stopped.end(task).ending is Ending.DONE


def test_failed_other_etcd_member_does_not_undo_good_node():
    """To undo restarts the node, and the failed member is the second one that is away."""
    here = world()
    task = here.begin("ann@a/boot/1.1", FIRST)
    here.time.run(lambda: bool(here.machine_of(FIRST).applied))
    here.cluster.etcd_stopped.add(SECOND)
    outcome = here.end(task)
    assert (outcome.ending, here.machine_of(FIRST).reverted) == (Ending.HELD, [])
    assert "not undone while the control plane is not known to be healthy" in outcome.reason
    here.cluster.etcd_stopped.clear()
    assert here.run("ann@a/boot/2.1", FIRST).ending is Ending.DONE


def test_node_whose_own_member_stays_down_is_undone():
    here = world()
    task = here.begin("ann@a/boot/1.1", FIRST)
    here.time.run(lambda: bool(here.machine_of(FIRST).applied))
    here.cluster.etcd_stopped.add(FIRST)
    here.time.run(lambda: bool(here.machine_of(FIRST).reverted))
    here.cluster.etcd_stopped.clear()
    assert here.end(task).ending is Ending.ROLLED_BACK


@pytest.mark.parametrize("count", [1, 2])
def test_control_plane_outage_is_refused_unless_permitted(count):
    here = world(count)
    refused = here.run(name=FIRST)
    assert (refused.ending, here.slots()) == (Ending.BLOCKED, [])
    assert "the API is away while" in refused.reason
    assert "(permit: control_plane_outage)" in refused.reason
    permitted = replace(SETTINGS, budget=replace(SETTINGS.budget, control_plane_outage=True))
    assert here.run("ann@a/boot/2.1", FIRST, settings=permitted).ending is Ending.DONE


def test_permitted_outage_does_not_permit_a_second():
    here = world()
    here.cluster.etcd_stopped.add(SECOND)
    permitted = replace(SETTINGS, budget=replace(SETTINGS.budget, control_plane_outage=True))
    assert here.run(name=FIRST, settings=permitted).ending is Ending.BLOCKED


# ---- a node of no pool ----


def test_node_outside_pool_needs_no_slot():
    here = world()
    here.cluster.change_node("node-0000", labels={"role": "storage"})
    begun = here.time.now
    task = here.begin(settings=replace(SETTINGS, budget=Budget(Share(count=1), pool="role=gpu")))
    outcome = here.end(task)
    assert outcome.ending is Ending.BLOCKED
    assert "outside the pool 'role=gpu'" in outcome.reason
    assert "give a pool (a label selector) that selects it" in outcome.reason
    assert (task.ended_at, here.slots()) == (begun, [])


def test_unfinished_node_is_finished_after_leaving_pool():
    here = world()
    task = here.begin()
    here.reach(Phase.APPLYING)
    task.kill()
    moved = replace(SETTINGS, budget=Budget(Share(count=1), pool="role=gpu"))
    here.time.run(100.0)
    assert here.run("ann@a/boot/2.1", settings=moved).ending is Ending.DONE


def test_unlabelled_control_plane_node_is_refused():
    here = world()
    here.cluster.add_pod(static("kube-apiserver", "node-0000"))
    outcome = here.run()
    assert outcome.ending is Ending.BLOCKED
    assert "kubectl label node node-0000 node-role.kubernetes.io/control-plane=true" in outcome.reason
