"""The admission simulator under the rules of each minor, against what that minor's own code answered."""

from __future__ import annotations

import pytest

from tests.conformance.record_admissions import FOLDER, FOLDER_OF_ORACLE, case_of, load
from tests.oracle.admitted import differing_pod


@pytest.mark.parametrize("minor", sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir()))
def test_admits_removes_and_restarts_as_the_kubelet_of_each_minor(minor: str) -> None:
    recorded = load(minor)
    differing = {
        number: said
        for number, each in enumerate(recorded)
        if (said := differing_pod(case_of(each), each["answer"], each["version"], FOLDER_OF_ORACLE))
    }
    assert not differing
    assert sum(len(each["answer"].get("admissions", [])) for each in recorded) > 400
