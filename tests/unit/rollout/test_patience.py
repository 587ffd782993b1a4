"""How long to go on without an answer."""

import pytest

from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.rollout.cluster import ApiUnreachableError, ConflictError
from numaforge.rollout.patience import Patience, patiently, retried
from tests.fixtures.tables import cases
from tests.fixtures.virtual_time import VirtualTime


def ask(call, seconds=60.0):
    time = VirtualTime()
    begun = time.now
    task = time.spawn(patiently(call, tell=lambda _: None, patience_seconds=seconds))
    time.finish(task)
    return task, time.now - begun


@cases("away", {"API server": ApiUnreachableError("no"), "host": HostUnreachableError("no")})
def test_unreachable_server_is_retried_until_budget_ends(away):
    def call():
        raise away

    task, seconds = ask(call)
    assert (task.error, 60.0 <= seconds <= 63.0) == (away, True)


def test_answer_ends_the_wait():
    answers = [ApiUnreachableError("no"), ApiUnreachableError("no"), None]

    def call():
        if (error := answers.pop(0)) is not None:
            raise error
        return "yes"

    assert ask(call)[0].result == "yes"


def test_refused_call_is_not_retried():
    def call():
        raise HostError("no")

    task, seconds = ask(call)
    assert (str(task.error), seconds) == ("no", 0.0)


def test_every_answer_resets_the_retry_budget():
    patience = Patience(5.0)
    for _ in range(10):
        patience.wait(ApiUnreachableError("no"))
        patience.wait(ApiUnreachableError("no"))
        patience.answered()
    patience.wait(ApiUnreachableError("no"))
    patience.wait(ApiUnreachableError("no"))
    with pytest.raises(ApiUnreachableError):
        patience.wait(ApiUnreachableError("no"))


def test_change_that_lost_to_another_writer_is_retried():
    answers = [ConflictError("changed"), ConflictError("changed"), None]

    def change():
        if (error := answers.pop(0)) is not None:
            raise error
        return "changed"

    assert retried(change, where="node-1") == "changed"


def test_change_that_always_conflicts_fails_with_its_object_named():
    def change():
        raise ConflictError("changed")

    with pytest.raises(ConflictError, match="node-1: it keeps changing"):
        retried(change, where="node-1")
