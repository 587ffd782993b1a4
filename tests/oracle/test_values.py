"""Scalars, YAML, flags, state files and whole texts, mutated, read by us and by the kubelet's code."""

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from lab.oracle import Answer, Oracle
from lab.progress import say
from tests.fixtures.kubelet_texts import in_any_order
from tests.fuzz import kubelet_inputs as inputs
from tests.oracle.case import Case
from tests.oracle.checked import checked, settled
from tests.oracle.comparison import Comparison
from tests.oracle.raw import MUTATED
from tests.oracle.readers import gos, same, value
from tests.oracle.scale import MUST_BUILD, SCALE, oracle_of

SCALARS = 3000
YAML_TEXTS = 6000
TEXTS = 6000
STATES = 4000
_BATCH = 1000
_BRACKET_FIRST = re.compile(r"(?:\s|#.*\n)*[\[{]")
# The words of a scanner's error depend on how far it read ahead; those of a refused quantity hold an address.
_MOST_OTHER_WORDS = 0.02

pytestmark = pytest.mark.long


def _asked(oracle: Oracle, reader: str, texts: Sequence[str]) -> list[tuple[Any, str]]:
    batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
    questions = [{"texts": [{"reader": reader, "text": text} for text in batch]} for batch in batches]
    return [gos(reader, each) for answer in oracle.ask(questions) for each in answer["values"]]


@pytest.mark.parametrize("reader", inputs.SCALARS)
def test_scalars_are_read_as_in_go(reader: str) -> None:
    random = Random(f"{reader}/{SCALE}")  # noqa: S311
    texts = inputs.many(random, inputs.SCALARS[reader], SCALARS * SCALE)
    with oracle_of(MUST_BUILD) as oracle:
        answers = _asked(oracle, reader, texts)
    assert [
        (text, answer, value(reader, text))
        for text, answer in zip(texts, answers, strict=True)
        if not same(answer, value(reader, text))
    ] == []


@pytest.mark.parametrize("reader", ["yaml", "strict yaml"])
def test_yaml_is_read_as_in_go(reader: str) -> None:
    random = Random(f"{reader}/{SCALE}")  # noqa: S311
    texts = inputs.many(random, inputs.yaml_text, YAML_TEXTS * SCALE)
    with oracle_of(MUST_BUILD) as oracle:
        answers = _asked(oracle, reader, texts)
    differ, words = [], 0
    for text, answer in zip(texts, answers, strict=True):
        ours = value(reader, text)
        # Go's YAML ends a document behind its brackets; to a kubelet what begins so is JSON.
        if _BRACKET_FIRST.match(text) or same(answer, ours):
            continue
        words += bool(answer[1] and ours[1])
        if not (answer[1] and ours[1]):
            differ.append((text, answer, ours))
    say(f"{reader}: {len(texts)} texts, {words} refused in other words")
    assert differ == []
    assert words < len(texts) * _MOST_OTHER_WORDS


@pytest.mark.parametrize("what", MUTATED)
def test_mutated_texts_get_the_verdict_of_the_kubelet(what: str) -> None:
    random = Random(f"{what}/{SCALE}")  # noqa: S311
    cases = [MUTATED[what](random) for _ in range((STATES if what == "state files" else TEXTS) * SCALE)]
    words = 0

    def disagreement(case: Case, answer: Answer, oracle: Oracle) -> str | None:
        nonlocal words
        said, in_other_words = _disagreement(case, answer, oracle)
        words += in_other_words
        return said

    with oracle_of(MUST_BUILD) as oracle:
        comparison = Comparison(oracle, disagreement)
        complaints = comparison.run(cases)
    accepted = sum(not answer["error"] for answer in comparison.answers)
    say(f"{what}: {len(cases)} cases, {accepted} accepted, {words} refused in other words")
    assert not complaints, "\n\n".join(complaints)
    assert 0 < accepted < len(cases)
    assert words < len(cases) * _MOST_OTHER_WORDS


def _disagreement(case: Case, answer: Answer, oracle: Oracle) -> tuple[str | None, bool]:
    """Say how verdict or settings differ, and whether a refusal has other words."""
    report, ours = checked(case, oracle)
    theirs = in_any_order(answer["error"])
    if bool(ours) != bool(theirs):
        return f"the kubelet says {theirs!r}, check says {ours!r}", False
    if theirs:
        return None, ours != theirs
    effective, expected = settled(report.effective), settled(answer["effective"])
    if effective != expected:
        return f"the kubelet has {json.dumps(expected)}, check {json.dumps(effective)}", False
    return None, False
