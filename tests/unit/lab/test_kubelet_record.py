"""docs/kubelets.json, which docs/check.md counts and quotes, is the record of today's table."""

from __future__ import annotations

import json

import pytest

from lab import kubelets
from lab.paths import REPOSITORY
from tests.lab.kubelet_cases import all_cases

RECORD = json.loads((REPOSITORY / "docs" / "kubelets.json").read_text())


def test_the_ends_are_on_record() -> None:
    assert {kubelets.OLDEST, kubelets.NEWEST} <= set(RECORD["releases"])


@pytest.mark.parametrize("minor", RECORD["releases"])
def test_the_record_is_of_the_release_that_is_built(minor: str) -> None:
    assert RECORD["releases"][minor] == kubelets.version(minor)


@pytest.mark.parametrize("minor", RECORD["releases"])
def test_every_configuration_was_tried(minor: str) -> None:
    tried = {
        name
        for name, outcomes in RECORD["outcomes"].items()
        if any(minor in minors for minors in outcomes.values())
    }
    assert tried == {case.trial.id for case in all_cases(0) if case.is_for(minor)}
