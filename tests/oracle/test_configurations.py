"""`check` and the kubelet's own code on random configurations: the same texts and effective settings."""

import json
from random import Random

import pytest

from lab.oracle import Answer, Oracle
from lab.progress import say
from tests.fixtures.kubelet_texts import in_any_order
from tests.oracle.case import Case
from tests.oracle.checked import checked, settled
from tests.oracle.comparison import Comparison
from tests.oracle.configurations import configuration
from tests.oracle.scale import ASKED, SCALE, oracle_of, share

CONFIGURATIONS = 47_000


def disagreement(case: Case, answer: Answer, oracle: Oracle) -> str | None:
    """Say where `check` and the kubelet differ on a configuration."""
    report, ours = checked(case, oracle)
    # From Go 1.24 on a path names embedded structs too; most kubelets were built with an older one.
    theirs = in_any_order(answer["error"]).replace(".OutputRoutingOptions", "")
    if ours != theirs:
        return f"the kubelet says {theirs!r}, check says {ours!r}"
    if not answer["loaded"]:
        return None
    effective, expected = settled(report.effective), settled(answer["effective"])
    for name in sorted({*effective, *expected}):
        if effective.get(name) != expected.get(name):
            return (
                f"the kubelet's effective {name} is {json.dumps(expected.get(name))}, "
                f"check's {json.dumps(effective.get(name))}"
            )
    if "reservation" in answer and dict(report.reservation) != answer["reservation"]:
        return f"the kubelet reserves {answer.get('reservation')}, check {dict(report.reservation)}"
    return None


@pytest.mark.long
@pytest.mark.parametrize("minor", ASKED)
def test_check_answers_as_the_kubelet(minor: str) -> None:
    random = Random(f"configurations/{minor}/{SCALE}")  # noqa: S311
    with oracle_of(minor) as oracle:
        cases = [configuration(random) for _ in range(share(CONFIGURATIONS))]
        comparison = Comparison(oracle, disagreement)
        complaints = comparison.run(cases)
    loaded = sum(answer["loaded"] for answer in comparison.answers)
    say(f"{oracle.version}: {len(cases)} configurations, {loaded} loaded, {comparison.undecided} undecided")
    assert not complaints, "\n\n".join(complaints)
    assert len(comparison.answers) == share(CONFIGURATIONS)
    assert loaded > len(cases) / 4
    assert comparison.undecided < len(cases) / 50
