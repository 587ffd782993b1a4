"""The admission simulator under the rules of each minor, against what that minor's own code answered."""

from pathlib import Path

import pytest

from tests.conformance.record_admissions import FOLDER, FOLDER_OF_ORACLE, case_of, load
from tests.oracle.admitted import differing_pod

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("minor", sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir()))
def test_admits_removes_and_restarts_as_the_kubelet_of_each_minor(minor: str) -> None:
    recorded = load(minor)
    differing = {
        number: said
        for number, each in enumerate(recorded)
        if (said := differing_pod(case_of(each), each["answer"], each["version"], FOLDER_OF_ORACLE))
    }
    assert not differing
    assert sum(len(each["answer"].get("admissions", [])) for each in recorded) > 300


def test_the_page_says_how_many_answers_are_recorded() -> None:
    recorded = [each for file in FOLDER.iterdir() for each in load(file.name.removesuffix(".json.xz"))]
    admissions, restarts = (
        sum(len(each["answer"].get(kind, [])) for each in recorded) for kind in ("admissions", "restarts")
    )
    page = " ".join((DOCS / "oracle.md").read_text(encoding="utf-8").split())
    assert f"{len(recorded)} sequences with {admissions:,} admissions and {restarts} restarts" in page
