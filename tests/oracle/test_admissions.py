"""The admission simulator and the kubelet's own managers on random pods: the same answers and shares."""

from random import Random

import pytest

from lab.progress import say
from tests.oracle.admissions import PODS, sequence
from tests.oracle.admitted import differing_pod
from tests.oracle.comparison import Comparison
from tests.oracle.scale import ASKED, SCALE, oracle_of, share

ADMISSIONS = 27_000


@pytest.mark.long
@pytest.mark.parametrize("minor", ASKED)
def test_pods_are_admitted_as_by_the_kubelet(minor: str) -> None:
    random = Random(f"admissions/{minor}/{SCALE}")  # noqa: S311
    with oracle_of(minor) as oracle:
        cases = [
            sequence(random, oracle.version, restarts=True) for _ in range(-(-share(ADMISSIONS) // PODS))
        ]
        comparison = Comparison(
            oracle, lambda case, answer, asked: differing_pod(case, answer, asked.version, str(asked.folder))
        )
        complaints = comparison.run(cases)
    answers = [admission for answer in comparison.answers for admission in answer.get("admissions", [])]
    admitted = sum(answer["admit"] for answer in answers)
    say(f"{oracle.version}: {len(answers)} admissions, {admitted} admitted, {comparison.undecided} undecided")
    assert not complaints, "\n\n".join(complaints)
    assert len(answers) >= share(ADMISSIONS)
    assert len(answers) / 4 < admitted < len(answers) * 3 / 4
    assert comparison.undecided < len(cases) / 20
