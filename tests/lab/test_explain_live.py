"""`numaforge cluster explain` against the lab's live kubelet: random pods, explained before it has them.

What is explained rests on what a cluster's API server and a node's state files say at that moment, as for an
admin: also while the kubelet writes the files, has not decided about pods before, or has given out what it
would not start with again. No answer may rest on a doubt. NUMAFORGE_EXPLAINED says how many pods
(`make test-admissions EXPLAINED=5000`), NUMAFORGE_SEED which ones. Runs are independent of each other, so
`--stepwise` goes on with one that failed.

A start of the kubelet takes as long as twenty pods, so a run has many of them. In one run of two each pod is
waited for, so that what a refused one leaves behind is read. In the others a pod that is said to be refused
is not, and those after it are explained while the kubelet has yet to decide about it.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from lab.cluster import Lab
from numaforge.cluster.explain.candidates import GivenMachine, candidates
from numaforge.cluster.explain.cluster import read_cluster
from numaforge.cluster.explain.explanation import OfNode, explain
from numaforge.cluster.explain.workload import workloads_of
from numaforge.kubelet.admission.fit import Scenario
from tests.lab.admission_sequences import SCENARIOS, sequence
from tests.lab.admission_sequences import Scenario as Settings
from tests.lab.live_kubelet import LiveKubelet, Verdict, expected

EXPLAINED = int(os.environ.get("NUMAFORGE_EXPLAINED", 2000))
SEED = os.environ.get("NUMAFORGE_SEED", "1")
PODS = 95
"""Of each run: with 2000 pods each configuration has two, one in which each pod is waited for."""
BURST = 6
"""Pods that the kubelet is given before it is asked about them."""


@dataclass(frozen=True)
class Explained:
    """One sequence of pods under one configuration."""

    number: int

    @property
    def settings(self) -> Settings:
        return SCENARIOS[self.number % len(SCENARIOS)]

    @property
    def waits(self) -> bool:
        """Whether each pod is waited for: by turns, also for one configuration, as their number is odd."""
        return self.number % 2 == 0


RUNS = [Explained(number) for number in range(-(-EXPLAINED // PODS))]


@pytest.fixture(scope="module")
def kubelet(lab: Lab) -> Iterator[LiveKubelet]:
    """The kubelet of a node as it was when first Ready; the node is put back afterwards."""
    lab.reset()
    with LiveKubelet(lab) as kubelet:
        yield kubelet
    lab.reset()


def word_of(kubelet: LiveKubelet, settings: Mapping[str, Any], pod: Mapping[str, Any]) -> OfNode:
    """Return what is explained of a pod on the node, from what cluster and state files say now."""
    node = kubelet.node()
    scenario: Scenario = kubelet.scenario(settings)
    [workload] = workloads_of([pod], "pod.yaml").workloads
    cluster = read_cluster([node, *kubelet.pods()])
    machine = GivenMachine(node["metadata"]["name"], scenario)
    [verdict] = explain(workload, candidates([machine], cluster.nodes))[0].verdicts
    return verdict


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.number}-{run.settings.name}")
def test_explain_matches_the_live_kubelet(kubelet: LiveKubelet, run: Explained) -> None:
    settings = run.settings.config(run.number % 50)
    random = Random(f"{SEED}/explained/{run.number}")  # noqa: S311
    operations = sequence(random, kubelet.simulator(settings), PODS)
    kubelet.start(settings)
    given = Given(kubelet, f"NUMAFORGE_SEED={SEED} {run.settings.name}")
    for operation in operations:
        if "remove" in operation:
            given.compare()
            kubelet.delete(operation["remove"])
            given.there.discard(operation["remove"])
            continue
        verdict = word_of(kubelet, settings, operation)
        kubelet.create(operation)
        given.pods[operation["metadata"]["name"]] = verdict, operation
        said = verdict.judgement.kubelet
        refused = said is not None and not said.admitted
        if run.waits or not refused or len(given.pods) == BURST:
            given.compare()
    given.compare()


@dataclass
class Given:
    """The pods that the kubelet was given and was not asked about, with what is explained of them."""

    kubelet: LiveKubelet
    told: str
    there: set[str] = field(default_factory=set)
    pods: dict[str, tuple[OfNode, Mapping[str, Any]]] = field(default_factory=dict)

    def compare(self) -> None:
        """Wait for the kubelet's verdicts, and hold what was explained to them."""
        found = self.kubelet.verdicts(self.pods) if self.pods else {}
        before: list[str] = []
        for name, (verdict, document) in self.pods.items():
            told = f"{self.told}: of {json.dumps(document)}, beside {sorted(self.there)}, after {before}"
            self._hold(verdict, found[name], told)
            # The scheduler counts pods about which the kubelet has not decided, those too that it refuses.
            assert before or not found[name]["admitted"] or verdict.judgement.reasons == (), told
            before.append(name)
            if found[name]["admitted"]:
                self.there.add(name)
        self.pods.clear()

    def _hold(self, verdict: OfNode, real: Verdict, told: str) -> None:
        said = verdict.judgement.kubelet
        assert said is not None, f"{told}: {verdict.judgement.unknown}"
        assert verdict.doubts == (), told
        assert expected(said) == real, told
