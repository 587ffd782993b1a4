"""`numaforge cluster explain` against the lab's live kubelet: random pods, explained before it has them.

What is explained rests on what a cluster's API server and a node's state files say at that moment, as for an
admin. NUMAFORGE_EXPLAINED says how many pods (`make test-admissions EXPLAINED=5000`), NUMAFORGE_SEED which
ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from lab.cluster import Lab
from numaforge.explain.candidates import GivenMachine, candidates
from numaforge.explain.cluster import read_cluster
from numaforge.explain.explanation import OfNode, explain
from numaforge.explain.workload import workloads_of
from numaforge.kubelet.admission.fit import Scenario
from tests.lab.admission_sequences import PODS_PER_SEQUENCE, SCENARIOS, sequence
from tests.lab.admission_sequences import Scenario as Settings
from tests.lab.live_kubelet import LiveKubelet, expected

EXPLAINED = int(os.environ.get("NUMAFORGE_EXPLAINED", 2000))
SEED = os.environ.get("NUMAFORGE_SEED", "1")
EVERY_TIME = (4,)
"""The runs of `make test`: one under restricted, with all managers."""

EMPTY_POOL = "default cpuset cannot be empty"
"""Of a kubelet that has given out its last CPU, and would not start again (kubernetes/kubernetes#141196)."""


@dataclass(frozen=True)
class Explained:
    """One sequence of pods under one configuration."""

    number: int

    @property
    def settings(self) -> Settings:
        return SCENARIOS[self.number % len(SCENARIOS)]


RUNS = [Explained(number) for number in range(-(-EXPLAINED // PODS_PER_SEQUENCE))]


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
    [workload] = workloads_of([pod], "pod.yaml")
    cluster = read_cluster([node, *kubelet.pods()])
    machine = GivenMachine(node["metadata"]["name"], scenario)
    [verdict] = explain(workload, candidates([machine], cluster.nodes))[0].verdicts
    return verdict


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(
            run,
            marks=() if run.number in EVERY_TIME else pytest.mark.long,
            id=f"{run.number}-{run.settings.name}",
        )
        for run in RUNS
    ],
)
def test_explains_what_the_live_kubelet_does(kubelet: LiveKubelet, run: Explained) -> None:
    settings = run.settings.config(run.number % 50)
    operations = sequence(Random(f"{SEED}/explained/{run.number}"), kubelet.simulator(settings))  # noqa: S311
    kubelet.start(settings)
    there: set[str] = set()
    for operation in operations:
        if "remove" in operation:
            kubelet.delete(operation["remove"])
            there.discard(operation["remove"])
            continue
        verdict = word_of(kubelet, settings, operation)
        name = operation["metadata"]["name"]
        kubelet.create(operation)
        real = kubelet.verdicts([name])[name]
        said = verdict.judgement.kubelet
        told = (
            f"NUMAFORGE_SEED={SEED} {run.settings.name}: of {json.dumps(operation)}, beside {sorted(there)}"
        )
        assert said is not None, f"{told}: {verdict.judgement.unknown}"
        if any(EMPTY_POOL in doubt for doubt in verdict.doubts):
            there |= {name} if real["admitted"] else set()
            continue
        assert verdict.doubts == (), told
        assert expected(said) == real, told
        if real["admitted"]:
            assert verdict.judgement.reasons == (), told
            there.add(name)
