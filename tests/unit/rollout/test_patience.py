"""How long to go on without an answer."""

import pytest

from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.rollout.cluster import ApiUnreachableError, ConflictError
from numaforge.rollout.patience import Patience, patiently, retried
from tests.fixtures.virtual_time import VirtualTime


def ask(call, seconds=60.0):
    time = VirtualTime()
    begun = time.now
    task = time.spawn(patiently(call, tell=lambda _: None, patience_seconds=seconds))
    time.finish(task)
    return task, time.now - begun


@pytest.mark.parametrize(
    "away", [ApiUnreachableError("no"), HostUnreachableError("no")], ids=["API server", "host"]
)
def test_who_is_away_is_asked_again_until_patience_ends(away):
    def call():
        raise away

    task, seconds = ask(call)
    assert (task.error, 60.0 <= seconds <= 63.0) == (away, True)


def test_an_answer_ends_the_waiting():
    answers = [ApiUnreachableError("no"), ApiUnreachableError("no"), None]

    def call():
        if (error := answers.pop(0)) is not None:
            raise error
        return "yes"

    assert ask(call)[0].result == "yes"


def test_what_is_refused_is_not_asked_again():
    def call():
        raise HostError("no")

    task, seconds = ask(call)
    assert (str(task.error), seconds) == ("no", 0.0)


def test_every_answer_makes_patience_new():
    patience = Patience(5.0)
    for _ in range(10):
        patience.wait(ApiUnreachableError("no"))
        patience.wait(ApiUnreachableError("no"))
        patience.answered()
    patience.wait(ApiUnreachableError("no"))
    patience.wait(ApiUnreachableError("no"))
    with pytest.raises(ApiUnreachableError):
        patience.wait(ApiUnreachableError("no"))


def test_a_change_that_somebody_else_was_faster_with_is_made_anew():
    answers = [ConflictError("changed"), ConflictError("changed"), None]

    def change():
        if (error := answers.pop(0)) is not None:
            raise error
        return "changed"

    assert retried(change, where="node-1") == "changed"


def test_who_is_never_fast_enough_is_told_of_what():
    def change():
        raise ConflictError("changed")

    with pytest.raises(ConflictError, match="node-1: it keeps changing"):
        retried(change, where="node-1")
