"""Ask the kubelet's code and ours the same, batch by batch, and report where they differ."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from lab.oracle import Answer, Oracle
from tests.oracle.case import Case, shrink

BATCH = 500
_SHOWN = 3
_REPEATS = 12
"""How often a disputed question is asked again: the kubelet walks its maps in another order each time."""

Disagreement = Callable[[Case, Answer, Oracle], str | None]


class Comparison:
    """Both sides over many cases; `disagreement` says in one text how they differ on one case, or None."""

    def __init__(self, oracle: Oracle, disagreement: Disagreement) -> None:
        self._oracle = oracle
        self._disagreement = disagreement
        self.answers: list[Answer] = []
        self.undecided = 0
        """Cases that the kubelet itself answers in more than one way, ours among them."""

    def run(self, cases: Sequence[Case]) -> list[str]:
        """Return what is printed of the first cases on which the two sides differ."""
        disputed: list[Case] = []
        batches = [cases[start : start + BATCH] for start in range(0, len(cases), BATCH)]
        waiting = self._begin(batches[0])
        for batch, following in zip_longest(batches, batches[1:], fillvalue=()):
            answers = waiting()
            waiting = self._begin(following)
            self.answers += answers
            disputed += [
                case
                for case, answer in zip(batch, answers, strict=True)
                if self._disagreement(case, answer, self._oracle)
            ]
        settled = [case for case, said in zip(disputed, self.in_dispute(disputed), strict=True) if said]
        self.undecided = len(disputed) - len(settled)
        return [self._shown(case) for case in settled[:_SHOWN]]

    def _begin(self, cases: Sequence[Case]) -> Callable[[], list[Answer]]:
        return self._oracle.begin([case.question() for case in cases])

    def in_dispute(self, cases: Sequence[Case], repeats: int = _REPEATS) -> list[str | None]:
        """Say of each case how the two sides differ every time that it is asked."""
        questions = [case.question() for case in cases for _ in range(repeats)]
        answers = self._oracle.ask(questions)
        found = []
        for number, case in enumerate(cases):
            said = [
                self._disagreement(case, answer, self._oracle)
                for answer in answers[number * repeats : (number + 1) * repeats]
            ]
            found.append(None if None in said else said[0])
        return found

    def _shown(self, case: Case) -> str:
        small = shrink(case, partial(self.in_dispute, repeats=1))
        if self.in_dispute([small])[0] is None:
            small = case
        return f"kubelet {self._oracle.version}: {self.in_dispute([small])[0]}\n{small}"


def pruned(value: Any) -> Any:
    """Return a configuration without what is unset: Go writes zero values where they are no pointers."""
    if isinstance(value, dict):
        kept = {name: pruned(inner) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if not _is_zero(inner)}
    if isinstance(value, list):
        return [pruned(item) for item in value]
    return value


def _is_zero(value: Any) -> bool:
    return value in (None, "", "0s", "0", 0, False, [], {}) and value is not True
