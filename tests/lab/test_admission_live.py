"""The admission simulator against the lab's live kubelet: random pods, admitted and removed.

NUMAFORGE_ADMISSIONS says how many (`make test-admissions ADMISSIONS=5000`), NUMAFORGE_SEED which ones.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import yaml

from lab.cluster import Lab
from numaforge.kubelet.admission.node import Admission, Node
from tests.lab.admission_sequences import HUGEPAGES, PODS_PER_SEQUENCE, SCENARIOS, Scenario, sequence
from tests.lab.live_kubelet import HUGEPAGES_PER_NUMA_NODE, LiveKubelet, Verdict, expected

ADMISSIONS = int(os.environ.get("NUMAFORGE_ADMISSIONS", PODS_PER_SEQUENCE * len(SCENARIOS)))
SEED = os.environ.get("NUMAFORGE_SEED", "1")
BURST = 6
"""Pods that the kubelet is given before it is asked about them."""

POOL = f"{2 * HUGEPAGES_PER_NUMA_NODE}Mi"

Operations = list[dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """One sequence of pods under one configuration."""

    number: int

    @property
    def scenario(self) -> Scenario:
        return SCENARIOS[self.number % len(SCENARIOS)]

    @property
    def settings(self) -> dict[str, Any]:
        return self.scenario.config(self.number % 50)

    def operations(self, kubelet: LiveKubelet) -> Operations:
        random = Random(f"{SEED}/{self.number}")  # noqa: S311
        return sequence(random, kubelet.simulator(self.settings))


RUNS = [Run(number) for number in range(-(-ADMISSIONS // PODS_PER_SEQUENCE))]


@dataclass(frozen=True)
class Disagreement:
    """What simulator and kubelet say about a pod, and how many operations it took to get there."""

    pod: str
    simulated: Verdict
    real: Verdict
    operations: int


@pytest.fixture(scope="module")
def kubelet(lab: Lab) -> Iterator[LiveKubelet]:
    """The kubelet of a node as it was when first Ready; the node is put back afterwards."""
    lab.reset()
    with LiveKubelet(lab) as kubelet:
        yield kubelet
    lab.reset()


def replay(kubelet: LiveKubelet, simulator: Node, operations: Operations) -> Disagreement | None:
    """Put the operations to both and return the first disagreement."""
    admitted: dict[str, Admission] = {}
    pending: dict[str, Admission] = {}

    def compare(done: int) -> Disagreement | None:
        asked = {**admitted, **pending}
        pending.clear()
        for name, verdict in kubelet.verdicts(asked).items():
            simulated = expected(asked[name])
            if simulated != verdict:
                return Disagreement(name, simulated, verdict, done)
        admitted.update({name: answer for name, answer in asked.items() if answer.admitted})
        return None

    for done, operation in enumerate(operations):
        if pending and ("remove" in operation or len(pending) == BURST):
            found = compare(done)
            if found:
                return found
        if "remove" in operation:
            name = operation["remove"]
            if admitted.pop(name, None):  # a refused pod holds nothing
                simulator.remove(name)
            kubelet.delete(name)
        else:
            answer = simulator.admit(operation)
            kubelet.create(operation)
            pending[answer.name] = answer
    return compare(len(operations)) if pending else None


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.number}-{run.scenario.name}")
def test_admission_decisions_match_the_live_kubelet(kubelet, run):
    operations = run.operations(kubelet)
    kubelet.start(run.settings)
    found = replay(kubelet, kubelet.simulator(run.settings), operations)
    if found:
        pytest.fail(
            f"NUMAFORGE_SEED={SEED} {run.scenario.name}: the simulator says of {found.pod}\n"
            f"  {found.simulated}\nthe kubelet\n  {found.real}\n"
            f"with the drop-in\n  {json.dumps(run.settings)}\n"
            "after these documents for `numaforge admit`:\n"
            f"{yaml.safe_dump_all(operations[: found.operations])}",
            pytrace=False,
        )


def hungry_pod(name: str, pool: str, *, in_init_container: bool = False) -> dict[str, Any]:
    """A pod with one container that takes all the hugepages of a NUMA node."""
    small = {"cpu": "1", "memory": "32Mi"}
    hungry = {"name": "hungry", "resources": {"limits": {**small, HUGEPAGES: pool}}}
    modest = {"name": "modest", "resources": {"limits": small}}
    spec = (
        {"initContainers": [hungry], "containers": [modest]}
        if in_init_container
        else {"containers": [hungry]}
    )
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.long
def test_running_pod_releases_memory_held_only_by_init_container(kubelet):
    settings = Scenario("single-numa-node", reserved="0,8").config(len(RUNS) % 50)
    kubelet.start(settings, cgroups=True)
    simulator = kubelet.simulator(settings)
    first = hungry_pod("first", POOL, in_init_container=True)
    before = simulator.admit(first)
    uid = kubelet.create(first, runs=True)
    kubelet.await_running("first")
    simulator.start("first")
    held = kubelet.state().of(uid)["memory"]
    assert held == {"modest": expected(before)["memory"]["modest"]}
    second = simulator.admit(hungry_pod("second", POOL))
    kubelet.create(hungry_pod("second", POOL))
    assert kubelet.verdicts(["second"]) == {"second": expected(second)}
    assert {b.numa_nodes for b in second.memory["hungry"]} == {b.numa_nodes for b in before.memory["hungry"]}


@pytest.mark.long
def test_sequences_cover_every_kind_of_verdict(kubelet):
    reasons: Counter[str | None] = Counter()
    for run in map(Run, range(len(SCENARIOS))):
        simulator = kubelet.simulator(run.settings)
        for operation in run.operations(kubelet):
            if "remove" in operation:
                simulator.remove(operation["remove"])
            else:
                reasons[simulator.admit(operation).reason] += 1
    assert reasons.total() >= 200
    assert 0.3 < reasons[None] / reasons.total() < 0.8
    assert reasons.keys() >= {
        "TopologyAffinityError",
        "SMTAlignmentError",
        "UnexpectedAdmissionError",
        "OutOfcpu",
    }
