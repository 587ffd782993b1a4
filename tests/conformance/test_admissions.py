"""The admission simulator under the rules of each minor, against what that minor's own code answered."""

from pathlib import Path

import pytest

from tests.conformance.record_admissions import FOLDER, FOLDER_OF_ORACLE, case_of, load
from tests.oracle.admitted import differing_pod

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("minor", sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir()))
def test_pods_are_admitted_removed_and_restarted_as_by_each_kubelet_minor(minor: str) -> None:
    recorded = load(minor)
    differing = {
        number: said
        for number, each in enumerate(recorded)
        if (said := differing_pod(case_of(each), each["answer"], each["version"], FOLDER_OF_ORACLE))
    }
    assert not differing
    assert sum(len(each["answer"].get("admissions", [])) for each in recorded) > 300


def test_page_states_the_number_of_recorded_answers() -> None:
    recorded = [each for file in FOLDER.iterdir() for each in load(file.name.removesuffix(".json.xz"))]
    admissions, restarts = (
        sum(len(each["answer"].get(kind, [])) for each in recorded) for kind in ("admissions", "restarts")
    )
    page = " ".join((DOCS / "oracle.md").read_text(encoding="utf-8").split())
    assert f"{len(recorded)} sequences with {admissions:,} admissions and {restarts} restarts" in page
