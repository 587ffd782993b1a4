"""A deploy for `numaforge rollout`: each host's change is a line in a file, and its node one of kwok's.

pyinfra connects for real, and the node's roll-out is the real one; the machine behind it is a file that
outlives every process.
"""

import itertools
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyinfra import host

from numaforge.change.identity import Identity
from numaforge.change.transaction import Process, Result, Status, Transaction
from numaforge.rollout import events
from numaforge.rollout.gate import Expected
from numaforge.rollout.names import PLACE
from numaforge.rollout.node import NodeRollout
from numaforge.rollout.options import RunRole, read_options
from numaforge.rollout.runner import this_runner
from numaforge.rollout.same_machine import Access
from numaforge.rollout.steps import Steps, in_thread, run
from tests.lab.fleet import KWOK

_SECONDS = 2.0
_numbers = itertools.count()


class FileMachine:
    """A machine whose transactions are lines of a file: `ID TIME`; one is applied a moment after it began."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def identity(self) -> Identity:
        return KWOK

    def access(self) -> Access:
        return Access("test", here=True)

    def change(self) -> Transaction | None:
        if self._begun():
            return None
        return Transaction(f"T{os.getpid()}-{next(_numbers)}")

    def expected(self) -> Expected:
        return Expected()

    def held(self) -> tuple[str, ...]:
        return ()

    def running_config(self) -> Mapping[str, Any]:
        return {}

    def rehearse(self, transaction: Transaction | None = None) -> str:  # noqa: ARG002
        return ""

    def begin(self, transaction: Transaction) -> None:
        if transaction.id not in self._begun():
            with self._file.open("a") as file:
                file.write(f"{transaction.id} {time.time()}\n")

    def confirm(self, transaction: str) -> None:
        raise AssertionError(f"{transaction} waits for nothing")

    def void(self, transaction: str) -> None:
        raise AssertionError(f"every answer arrives, and {transaction} is begun")

    def status(self, transaction: str | None, seen: Status | None = None) -> Status:  # noqa: ARG002
        begun = self._begun().get(transaction or "")
        if begun is None:
            return Status(None, False, None, KWOK.boot_id or "")
        if time.time() < begun + _SECONDS:
            return Status("start kubelet", True, None, KWOK.boot_id or "")
        return Status(
            "applied", False, Result(transaction or "", "applied", "as written"), KWOK.boot_id or ""
        )

    def process(self) -> Process:
        return Process(KWOK.boot_id or "", 1, 0, 0)

    def proceed(self, transaction: str, allowed: tuple[str, ...]) -> None:
        raise AssertionError(f"{transaction} waits for no pods, and gets the lease {allowed}")

    def revert(self, transaction: str, reason: str, *, blames_plan: bool = True) -> None:  # noqa: ARG002
        raise AssertionError(f"{transaction} is not to be reverted: {reason}")

    def settle(self) -> None:
        raise AssertionError("nothing is ever broken off")

    def verify(self) -> Steps[tuple[str, ...]]:
        yield from ()
        return ()

    def _begun(self) -> dict[str, float]:
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return {name: float(when) for name, when in (line.split() for line in lines)}


def _roll_out() -> None:
    options = read_options(host.data.get(PLACE), host.data.get(f"{PLACE}_options"))
    machine = FileMachine(Path(host.data.get("changes"), host.name))
    if host.state.check_for_changes:
        restarts = machine.change() is not None
        events.record(
            "outlook",
            host.name,
            node=host.name,
            joined=True,
            restarts=restarts,
            changes=restarts,
            sentences=["a line is written"] if restarts else [],
            allocatable={},
            options=options.model_dump(),
            unreadable="",
        )
        return

    def tell(progress: Any) -> None:
        events.record("progress", host.name, phase=progress.phase, waits_for=progress.waits_for)

    with options.cluster() as cluster:
        rollout = NodeRollout(
            cluster,
            machine,
            host.name,
            this_runner(),
            options.for_node(),
            time.monotonic,
            tell,
            rollout=RunRole(**(host.data.get(f"{PLACE}_run") or {})).name,
            beside=in_thread,
        )
        outcome = run(rollout.run())
    events.record(
        "outcome", host.name, ending=outcome.ending, reason=outcome.reason, details=list(outcome.details)
    )


_roll_out()
