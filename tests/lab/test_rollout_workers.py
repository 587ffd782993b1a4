"""Three real workers are rolled out: pods really move, budgets really block, one node is away at a time."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from lab.api import Api
from lab.cluster import Lab
from tests.lab import rollouts
from tests.lab.fleet import LAST, Observer
from tests.lab.rollouts import QUICK, applied, begin, free, inventory, policy

pytestmark = pytest.mark.long

WORKERS = 3
REPLICAS = 3
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


@pytest.fixture(scope="module")
def trio(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with three workers: the running one where it has them, else one in its place."""
    if len(lab.nodes) >= WORKERS:
        yield lab
        return
    workers = len(lab.nodes)
    lab.down()
    trio = Lab(tmp_path_factory.mktemp("workers"))
    try:
        trio.up(WORKERS)
        yield trio
    finally:
        trio.down()
        lab.up(workers)


@pytest.fixture
def workers(trio: Lab) -> Lab:
    """Three workers as they were when first Ready: joined, their kubelets without a static policy."""
    trio.reset()
    for node in trio.nodes:
        node.run(rollouts.HEALTHY)
    return trio


class Availability:
    """How many pods of a Deployment were available at the worst moment while this was entered."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.least = REPLICAS
        self._api = Api(lab.control_plane)
        self._name = name
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._over = False

    def __enter__(self) -> Self:
        found = self._api.get(f"{DEPLOYMENTS}/{self._name}")
        assert found["status"].get("availableReplicas") == REPLICAS, found["status"]
        self._version = found["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._api.patch(f"{DEPLOYMENTS}/{self._name}", {"metadata": {"annotations": {LAST: str(id(self))}}})
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _watch(self) -> None:
        for event in self._api.watch(DEPLOYMENTS, self._version):
            if event["type"] == "BOOKMARK":
                continue
            self.least = min(self.least, event["object"]["status"].get("availableReplicas", 0))
            if self._over:
                return


def pods(lab: Lab) -> dict[str, str]:
    """Return the nodes of the pods by UID."""
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in lab.get("pods")["items"]}


def test_pods_move_between_nodes_within_their_disruption_budget(workers: Lab, tmp_path: Path) -> None:
    web = rollouts.deployment("web", REPLICAS, topologySpreadConstraints=[SPREAD])
    rollouts.kubectl(workers, "create", "-f", "-", manifest=web)
    rollouts.kubectl(workers, "create", "-f", "-", manifest=rollouts.budget("web", REPLICAS))
    rollouts.await_deployment(workers, "web")
    rollouts.await_budget(workers, "web", 0)
    before = pods(workers)
    names = {node.name for node in workers.nodes}
    assert set(before.values()) == names

    with Observer(Api(workers.control_plane)) as observer, Availability(workers, "web") as web_pods:
        run = begin("run", inventory(workers, tmp_path, **QUICK), state=tmp_path)
        blocked = run.await_event(lambda event: "default/web allows 0 disruptions" in json.dumps(event))
        assert pods(workers) == before
        rollouts.kubectl(workers, "patch", "pdb/web", "--type=merge", "-p", '{"spec":{"minAvailable":2}}')
        assert run.end() == 0, (run.events, run.errors())
    assert blocked["node"] == workers.nodes[0].name
    assert len(observer.most.out) == 1
    assert observer.order == sorted(names)
    assert web_pods.least == REPLICAS - 1
    after = pods(workers)
    assert len(after) == REPLICAS
    assert not before.keys() & after.keys()
    for node in workers.nodes:
        assert (policy(node), applied(node), free(workers, node)) == ("static", 1, True)
