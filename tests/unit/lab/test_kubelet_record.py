"""docs/kubelets.json, which docs/check.md counts and quotes, is the record of today's table."""

import json
from dataclasses import replace

import pytest

from lab import kubelets
from lab.paths import REPOSITORY
from tests.fixtures import machines
from tests.fixtures.kubelet_texts import in_any_order, without_path
from tests.lab.kubelet_cases import all_cases, predicted

RECORD = json.loads((REPOSITORY / "docs" / "kubelets.json").read_text())


def test_oldest_and_newest_kubelet_are_on_record() -> None:
    assert {kubelets.OLDEST, kubelets.OWN} <= set(RECORD["releases"])


@pytest.mark.parametrize("minor", RECORD["releases"])
def test_record_matches_the_built_release(minor: str) -> None:
    assert RECORD["releases"][minor] == kubelets.version(minor)


@pytest.mark.parametrize("minor", RECORD["releases"])
def test_every_configuration_is_on_record(minor: str) -> None:
    tried = {
        name
        for name, outcomes in RECORD["outcomes"].items()
        if any(minor in minors for minors in outcomes.values())
    }
    assert tried == {case.trial.id for case in all_cases(0) if case.is_for(minor)}


@pytest.mark.parametrize("minor", RECORD["releases"])
def test_check_predicts_the_recorded_outcome_of_each_kubelet(minor: str) -> None:
    """Except for cases whose state files a kubelet wrote first: these are not on record."""
    memory_bytes = RECORD["memory_bytes"][minor]
    machine = replace(machines.lab_node(), memory_bytes=memory_bytes)
    said, done = {}, {}
    for case in all_cases(memory_bytes):
        trial = case.trial
        if not case.is_for(minor) or trial.state or trial.before or trial.edits:
            continue
        outcomes = RECORD["outcomes"][trial.id]
        recorded = next(error for error, minors in outcomes.items() if minor in minors)
        said[trial.id] = in_any_order(predicted(trial, minor, machine).error or "starts")
        done[trial.id] = in_any_order(without_path(recorded))
    assert len(said) > 150
    assert said == done
