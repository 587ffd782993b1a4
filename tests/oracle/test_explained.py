"""What is explained of random pods beside those that run, and what the kubelet's own managers decide."""

from random import Random

import pytest

from lab.oracle import Answer, Oracle
from lab.progress import say
from numaforge.cluster.explain.candidates import KnownKubelet
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import Pod
from tests.fixtures.admitted import outcome
from tests.oracle.admissions import PODS, sequence
from tests.oracle.admitted import node_of
from tests.oracle.case import Case
from tests.oracle.comparison import Comparison
from tests.oracle.scale import ASKED, SCALE, oracle_of, share

EXPLAINED = 6_000


def disagreement(case: Case, answer: Answer, oracle: Oracle) -> str | None:
    """Say where what is explained and what the kubelet decides differ first on a sequence of pods."""
    node = node_of(case, answer, oracle.version)
    if not isinstance(node, Node):
        return node
    kubelet = KnownKubelet(node, ())
    theirs = iter(answer.get("admissions", []))
    for operation in case.operations:
        if "remove" in operation:
            leaving = [each for each in kubelet.running if each.name == operation["remove"]]
            kubelet = kubelet.without(leaving[0]) if leaving else kubelet
            continue
        pod = Pod.from_manifest(operation["spec"], operation["name"])
        said, expected = kubelet.answer(pod), next(theirs)
        if (ours := outcome(said, operation["spec"])) != expected:
            return f"the kubelet answers {expected}, and explained is {ours}"
        kubelet = kubelet.with_pod(pod)
    return None


@pytest.mark.long
@pytest.mark.parametrize("minor", ASKED)
def test_explain_matches_the_kubelet(minor: str) -> None:
    random = Random(f"explained/{minor}/{SCALE}")  # noqa: S311
    with oracle_of(minor) as oracle:
        cases = [
            sequence(random, oracle.version, restarts=False) for _ in range(-(-share(EXPLAINED) // PODS))
        ]
        comparison = Comparison(oracle, disagreement)
        complaints = comparison.run(cases)
    answers = [admission for answer in comparison.answers for admission in answer.get("admissions", [])]
    say(f"{oracle.version}: {len(answers)} pods explained, {comparison.undecided} sequences undecided")
    assert not complaints, "\n\n".join(complaints)
    assert len(answers) >= share(EXPLAINED)
    assert comparison.undecided < len(cases) / 20
