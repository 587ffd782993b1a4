"""A fleet without machines: what they would say, a thread for each roll-out, and an observer of its nodes."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from lab.api import Api
from lab.errors import LabError
from lab.kwok import NODE_INFO, ZONE
from numaforge.change.identity import Identity
from numaforge.change.transaction import Process, Result, Status, Transaction
from numaforge.rollout.gate import Expected
from numaforge.rollout.node import NodeRollout
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.record import Ending
from numaforge.rollout.same_machine import Access
from numaforge.rollout.steps import Steps, run
from tests.fixtures.virtual_time import Killed

NODES = "/api/v1/nodes"
LAST = "observer.test/last"
KWOK = Identity(NODE_INFO["bootID"], NODE_INFO["machineID"], NODE_INFO["systemUUID"].lower())
_ids = itertools.count()


def briefly(seconds: float) -> None:
    """Wait, but never for long: what takes seconds in a real cluster takes less in this one."""
    time.sleep(min(seconds, 0.3))


@dataclass
class ScriptedMachine:
    """A machine behind a node that has none: its transactions are applied a moment after they begin.

    It outlives the process that began them. `wanted` is what its plan predicts, `unverified` what is found
    wrong with it once it is changed, and `host` which machine it is. `asked` hears of every call before it
    takes effect; `reverted` says why, by transaction.
    """

    seconds: float = 0.5
    outcome: str = "applied"
    unverified: tuple[str, ...] = ()
    host: Identity = KWOK
    wanted: Expected = field(default_factory=Expected)
    asked: Callable[[str], object] = lambda _call: None
    begun: list[str] = field(default_factory=list)
    leases: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    reverted: dict[str, str] = field(default_factory=dict)
    _ends: dict[str, float] = field(default_factory=dict)
    _void: set[str] = field(default_factory=set)
    _done: bool = False

    def identity(self) -> Identity:
        self.asked("identity")
        return self.host

    def access(self) -> Access:
        return Access("test", here=True)

    def change(self) -> Transaction | None:
        self.asked("change")
        return None if self._done else Transaction(f"T{next(_ids)}")

    def expected(self) -> Expected:
        return self.wanted

    def held(self) -> tuple[str, ...]:
        return ()

    def rehearse(self, transaction: Transaction | None = None) -> str:  # noqa: ARG002
        return ""

    def running_config(self) -> Mapping[str, Any]:
        self.asked("running_config")
        return {}

    def begin(self, transaction: Transaction) -> None:
        self.asked("begin")
        if transaction.id not in [*self.begun, *self._void]:
            self.begun.append(transaction.id)
            self._ends[transaction.id] = time.monotonic() + self.seconds

    def confirm(self, transaction: str) -> None:
        raise AssertionError(f"{transaction} waits for nothing")

    def void(self, transaction: str) -> None:
        self.asked("void")
        if transaction not in self.begun:
            self._void.add(transaction)

    def status(self, transaction: str | None, seen: Status | None = None) -> Status:  # noqa: ARG002
        self.asked("status")
        if transaction in self._void:
            return Status(
                None, False, Result(transaction, "void", "nothing was changed"), self.host.boot_id or ""
            )
        ends = self._ends.get(transaction or "")
        if ends is None:
            return Status(None, False, None, self.host.boot_id or "")
        undone = transaction in self.reverted
        if time.monotonic() < ends:
            return Status("undo files" if undone else "start kubelet", True, None, self.host.boot_id or "")
        outcome = "rolled-back" if undone else self.outcome
        self._done = outcome == "applied"
        reason = self.reverted.get(transaction or "", "as scripted")
        return Status(outcome, False, Result(transaction or "", outcome, reason), self.host.boot_id or "")

    def process(self) -> Process:
        self.asked("process")
        return Process(self.host.boot_id or "", 1, 0, 0)

    def proceed(self, transaction: str, allowed: tuple[str, ...]) -> None:
        self.asked("proceed")
        self.leases.append((transaction, allowed))

    def revert(self, transaction: str, reason: str, *, blames_plan: bool = True) -> None:  # noqa: ARG002
        self.asked("revert")
        if transaction not in self.reverted:
            self.reverted[transaction] = reason
            self._ends[transaction] = time.monotonic() + self.seconds

    def settle(self) -> None:
        raise AssertionError("nothing is ever broken off")

    def verify(self) -> Steps[tuple[str, ...]]:
        yield from ()
        return self.unverified


class Thread:
    """A node's roll-out in a thread of its own; implements numaforge.rollout.fleet.Running.

    One in which something raises Killed does nothing more, and has no outcome, as if its process had died.
    """

    def __init__(self, rollout: NodeRollout, sleep: Callable[[float], object] = time.sleep) -> None:
        self._outcome: Outcome | None = None
        self._thread = threading.Thread(target=self._run, args=(rollout, sleep), daemon=True)
        self._thread.start()

    def outcome(self) -> Outcome | None:
        return self._outcome

    def end(self, patience_s: float = 240) -> Outcome | None:
        """Return the outcome once the thread has ended, which it must in time."""
        self._thread.join(patience_s)
        assert not self._thread.is_alive(), f"it still goes on after {patience_s:.0f} s"
        return self._outcome

    def _run(self, rollout: NodeRollout, sleep: Callable[[float], object]) -> None:
        try:
            self._outcome = run(rollout.run(), sleep)
        except Killed:
            return
        except Exception as error:  # the test says what it is
            self._outcome = Outcome(Ending.HELD, repr(error))


@dataclass(frozen=True)
class Moment:
    """What was out of service after one node had changed; `at` is in seconds of time.monotonic()."""

    at: float
    node: str
    out: frozenset[str]
    by_zone: dict[str, int]


class Observer:
    """A thread with a connection of its own that watches the nodes while it is entered.

    A node is out of service when it is unschedulable or not Ready. The watch names every change in the order
    in which the API server made it, so no moment is missed, however late the thread runs; when the API server
    goes away, the watch goes on from the last change when it is back.
    """

    def __init__(self, api: Api) -> None:
        self.moments: list[Moment] = []
        self._api = api
        self._version = ""
        self._zones: dict[str, str] = {}
        self._out: set[str] = set()
        self._failure: LabError | None = None
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)

    def __enter__(self) -> Self:
        listed = self._api.get(NODES)
        self._version = listed["metadata"]["resourceVersion"]
        for node in listed["items"]:
            self._note(node)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Return when everything that has happened until now is noted: a last change is the sign."""
        self._api.patch(f"{NODES}/{min(self._zones)}", {"metadata": {"annotations": {LAST: str(id(self))}}})
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure
        if self._thread.is_alive():
            raise LabError("the observer does not hear of the last change")

    @property
    def most(self) -> Moment:
        """The moment when most nodes were out of service."""
        return max(self.moments, key=lambda moment: len(moment.out))

    @property
    def most_zones(self) -> int:
        """In how many zones nodes were out of service together, at most."""
        return max(len(moment.by_zone) for moment in self.moments)

    @property
    def order(self) -> list[str]:
        """The nodes in the order in which they first went out of service."""
        return list(dict.fromkeys(moment.node for moment in self.moments if moment.node in moment.out))

    def most_in(self, zone: str) -> int:
        """Return how many nodes of a zone were out of service together, at most."""
        return max(moment.by_zone.get(zone, 0) for moment in self.moments)

    def _watch(self) -> None:
        try:
            for event in self._api.watch(NODES, self._version):
                node = event["object"]
                if event["type"] != "BOOKMARK":
                    self._note(node, deleted=event["type"] == "DELETED")
                if node["metadata"].get("annotations", {}).get(LAST) == str(id(self)):
                    return
        except LabError as error:
            self._failure = error

    def _note(self, node: dict[str, Any], *, deleted: bool = False) -> None:
        name = node["metadata"]["name"]
        self._zones[name] = node["metadata"].get("labels", {}).get(ZONE, "")
        was_out = name in self._out
        self._out.discard(name)
        if not deleted and _out_of_service(node):
            self._out.add(name)
        if not self.moments or was_out != (name in self._out):
            by_zone = Counter(self._zones[out] for out in self._out)
            self.moments.append(Moment(time.monotonic(), name, frozenset(self._out), dict(by_zone)))


def _out_of_service(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return node["spec"].get("unschedulable", False) or not ready
