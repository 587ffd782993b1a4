"""The admission simulator and the kubelet's own managers on random pods: the same answers and shares."""

from __future__ import annotations

from random import Random

import pytest

from lab.oracle import Answer, Oracle
from lab.progress import say
from numaforge.kubelet.admission import Node
from tests.fixtures.admitted import outcome
from tests.oracle.admissions import PODS, sequence
from tests.oracle.admitted import node_of
from tests.oracle.case import Case
from tests.oracle.comparison import Comparison
from tests.oracle.scale import ASKED, SCALE, oracle_of, share

ADMISSIONS = 27_000


def disagreement(case: Case, answer: Answer, oracle: Oracle) -> str | None:
    """Say where the simulator and the kubelet differ first on a sequence of pods."""
    node = node_of(case, answer, oracle)
    if not isinstance(node, Node):
        return node
    theirs = iter(answer.get("admissions", []))
    for operation in case.operations:
        if "remove" in operation:
            if operation["remove"] in node.pods:
                node.remove(operation["remove"])
            continue
        ours, expected = (
            outcome(node.admit(operation["spec"], operation["name"]), operation["spec"]),
            next(theirs),
        )
        if ours != expected:
            return f"the kubelet answers {expected}, the simulator {ours}"
    return None


@pytest.mark.long
@pytest.mark.parametrize("minor", ASKED)
def test_admits_as_the_kubelet(minor: str) -> None:
    random = Random(f"admissions/{minor}/{SCALE}")  # noqa: S311
    with oracle_of(minor) as oracle:
        cases = [sequence(random, oracle.version) for _ in range(-(-share(ADMISSIONS) // PODS))]
        comparison = Comparison(oracle, disagreement)
        complaints = comparison.run(cases)
    answers = [admission for answer in comparison.answers for admission in answer.get("admissions", [])]
    admitted = sum(answer["admit"] for answer in answers)
    say(f"{oracle.version}: {len(answers)} admissions, {admitted} admitted, {comparison.undecided} undecided")
    assert not complaints, "\n\n".join(complaints)
    assert len(answers) >= share(ADMISSIONS)
    assert len(answers) / 4 < admitted < len(answers) * 3 / 4
    assert comparison.undecided < len(cases) / 20
