"""`check` against real kubelets in the virtual node: every configuration of the table, verdict and text.

NUMAFORGE_KUBELETS chooses the minors: `all`, or a list (`1.33,1.34`). What all of them did is on record, to
which tests/conformance holds `check` in `make test`.
NUMAFORGE_KUBELET_RECORD names a file that the verdicts are written to; other minors stay there as they are.
"""

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from lab import kubelets
from lab.cluster import Lab
from lab.kubelets import Trial, Verdict
from lab.node import Node
from lab.twin import twins
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from tests.fixtures.kubelet_starts import all_cases, predicted
from tests.fixtures.kubelet_texts import in_any_order, without_path

pytestmark = pytest.mark.long
CHOSEN = os.environ.get("NUMAFORGE_KUBELETS", "all")
MINORS = kubelets.MINORS if CHOSEN == "all" else tuple(CHOSEN.split(","))
NAMES = [(minor, case.trial.id) for minor in MINORS for case in all_cases(0) if case.is_for(minor)]
FEWEST = 30
"""Of the starts as well as of the refusals that a kubelet must show."""


@dataclass(frozen=True)
class Trials:
    """What was tried on which machine, and how it ended: by minor and by the trial's id."""

    machine: NodeTopology
    trials: Mapping[str, Trial]
    verdicts: Mapping[str, Mapping[str, Verdict]]


@pytest.fixture(scope="module")
def tried(lab: Lab, request: pytest.FixtureRequest) -> Trials:
    """Every chosen kubelet, tried with what the selected tests ask for; two nodes work side by side."""
    selected = [item.callspec.params for item in request.session.items if item.path == request.path]
    names = {minor: {each.get("name") for each in selected if each["minor"] == minor} for minor in MINORS}
    for minor in MINORS:
        kubelets.build(minor)
    with twins(lab, min(2, len(MINORS))) as nodes:
        machine = read_topology(parse_output(nodes[0].run("sh -s", input_text=script())))
        cases = all_cases(machine.memory_bytes)
        idle: SimpleQueue[Node] = SimpleQueue()
        for node in nodes:
            idle.put(node)

        def judged(minor: str) -> Mapping[str, Verdict]:
            node = idle.get()
            try:
                trials = [case.trial for case in cases if case.trial.id in names[minor]]
                return kubelets.judge(node, minor, trials)
            finally:
                idle.put(node)

        with ThreadPoolExecutor(len(nodes)) as pool:
            verdicts = dict(zip(MINORS, pool.map(judged, MINORS), strict=True))
    if name := os.environ.get("NUMAFORGE_KUBELET_RECORD"):
        record = Path(name)
        before = json.loads(record.read_text()) if record.exists() else {}
        record.write_text(_record(before, machine, verdicts))
    return Trials(machine, {case.trial.id: case.trial for case in cases}, verdicts)


def _record(
    before: Mapping[str, Any], machine: NodeTopology, verdicts: Mapping[str, Mapping[str, Verdict]]
) -> str:
    """Return the verdicts as JSON: by configuration, each outcome with the kubelets that had it.

    What is on record `before` of other minors stays: a new one is tried alone.
    """
    outcomes: dict[str, dict[str, list[str]]] = {}
    for name, known in before.get("outcomes", {}).items():
        for outcome, minors in known.items():
            if left := [minor for minor in minors if minor not in verdicts]:
                outcomes.setdefault(name, {})[outcome] = left
    for minor, by_trial in verdicts.items():
        for name, verdict in by_trial.items():
            outcomes.setdefault(name, {}).setdefault(verdict.error or "starts", []).append(minor)
    releases = before.get("releases", {}) | {minor: kubelets.version(minor) for minor in verdicts}
    memory = before.get("memory_bytes", {}) | dict.fromkeys(verdicts, machine.memory_bytes)
    record = {"releases": releases, "memory_bytes": memory, "outcomes": outcomes}
    return json.dumps(record, indent=1) + "\n"


@pytest.mark.parametrize(("minor", "name"), NAMES, ids=[f"{minor}-{name}" for minor, name in NAMES])
def test_check_matches_the_kubelet(tried: Trials, minor: str, name: str) -> None:
    trial, verdict = tried.trials[name], tried.verdicts[minor][name]
    report = predicted(trial, kubelets.version(minor), tried.machine, verdict.state)
    assert report.starts is verdict.starts
    assert in_any_order(report.error or "") == in_any_order(without_path(verdict.error))


@pytest.mark.parametrize("minor", MINORS)
def test_kubelet_trials_include_starts_and_refusals(tried: Trials, minor: str) -> None:
    starts = [verdict.starts for verdict in tried.verdicts[minor].values()]
    assert min(starts.count(True), starts.count(False)) >= FEWEST
