"""`check` against the answers of kubelets to the table of starts, in docs/kubelets.json and in the table."""

import json
from dataclasses import replace

import pytest

from lab import kubelets
from lab.paths import REPOSITORY
from tests.fixtures import machines
from tests.fixtures.kubelet_starts import all_cases, predicted
from tests.fixtures.kubelet_texts import in_any_order, without_path

RECORD = json.loads((REPOSITORY / "docs" / "kubelets.json").read_text())
IN_TABLE = [
    pytest.param(case.trial, minor, outcome, id=f"{case.trial.id}, {minor}")
    for case in all_cases(0)
    for minor, outcome in case.outcomes.items()
]


def test_oldest_and_newest_kubelet_are_on_record() -> None:
    assert {kubelets.OLDEST, kubelets.OWN} <= set(RECORD["releases"])


@pytest.mark.parametrize("minor", RECORD["releases"])
def test_record_matches_the_built_release(minor: str) -> None:
    assert RECORD["releases"][minor] == kubelets.version(minor)


@pytest.mark.parametrize("minor", RECORD["releases"])
def test_every_configuration_without_an_outcome_is_on_record(minor: str) -> None:
    tried = {
        name
        for name, outcomes in RECORD["outcomes"].items()
        if any(minor in minors for minors in outcomes.values())
    }
    cases = [case for case in all_cases(0) if case.is_for(minor)]
    assert (
        {case.trial.id for case in cases if not case.outcomes} <= tried <= {case.trial.id for case in cases}
    )


@pytest.mark.parametrize("minor", RECORD["releases"])
def test_check_predicts_the_recorded_outcome_of_each_kubelet(minor: str) -> None:
    """Except for cases whose state files a kubelet wrote first: these are not on record."""
    memory_bytes = RECORD["memory_bytes"][minor]
    machine = replace(machines.lab_node(), memory_bytes=memory_bytes)
    said, done = {}, {}
    for case in all_cases(memory_bytes):
        trial = case.trial
        outcomes = RECORD["outcomes"].get(trial.id, {})
        recorded = [error for error, minors in outcomes.items() if minor in minors]
        if not recorded or trial.state or trial.before or trial.edits:
            continue
        said[trial.id] = in_any_order(predicted(trial, kubelets.version(minor), machine).error or "starts")
        done[trial.id] = in_any_order(without_path(recorded[0]))
    assert len(said) > 150
    assert said == done


@pytest.mark.parametrize(("trial", "minor", "outcome"), IN_TABLE)
def test_check_predicts_the_outcome_in_the_table(trial: kubelets.Trial, minor: str, outcome: str) -> None:
    assert (predicted(trial, minor, machines.lab_node()).error or "starts") == outcome
