"""A transaction is followed to its end, also where the node does not say everything for a while."""

from collections.abc import Iterator

import pytest

from numaforge.change import carry
from numaforge.change.transaction import Transaction
from numaforge.lib.errors import HostUnreachableError
from numaforge.lib.framing import Answer
from tests.fixtures.answers import FILES, RESULT, answered, status_of


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry.time, "sleep", print)


def without(line: str) -> list[str]:
    """Return an answer that lacks one thing."""
    return [each for each in status_of("loaded", "prove kubelet") if not each.startswith(line)]


def followed(answers: Iterator[list[str]]) -> str:
    """Carry out a transaction on a node that answers so, and return how it was applied."""
    seen = iter([answered(), *answers])

    def ask(_: str) -> Answer:
        return Answer.of(next(seen))

    return carry.carry_out(Transaction("T", (FILES,)), ask, ask, print).outcome


@pytest.mark.parametrize("times", [1, 5, 30])
@pytest.mark.parametrize("unsaid", ["Boot", "Uptime"])
def test_node_with_an_incomplete_answer_is_asked_again(unsaid: str, times: int) -> None:
    running = status_of("loaded", "starting")
    ended = status_of("not-found", "prove kubelet", RESULT)
    assert followed(iter([running, *[without(unsaid)] * times, ended])) == "applied"


def test_node_that_never_answers_completely_is_unreachable() -> None:
    with pytest.raises(HostUnreachableError, match="answer about its change is incomplete"):
        followed(iter([without("Boot")] * 100))
