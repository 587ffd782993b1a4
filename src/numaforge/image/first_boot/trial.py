"""A plan on trial: in effect, and undone unless the cluster was reached with it, or an admin confirms it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge.change import transaction
from numaforge.change.carry import clear_status
from numaforge.change.transaction import TRANSACTIONS, Status
from numaforge.image.first_boot.stamp import TRIAL, BootRecord, accept, forget, note_confirmed, reject
from numaforge.lib import bounded
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.lib.framing import Answer

if TYPE_CHECKING:  # a boot needs no TLS
    from numaforge.image.first_boot.kubelet_login import KubeletLogin

MOST_ATTEMPTS = 3
"""How often a plan is tried while its change is broken off: by power cuts, or because the kernel crashes."""
BY_PERSON = "a person: `numaforge boot --confirm`"
BY_NODE = "the node itself: it had no earlier plan, or no login to a cluster"
_PAUSE_SECONDS = 1.0
_SCRIPT_SECONDS = 900
Tell = Callable[[str], object]


def ask(script: str) -> Answer:
    """Run a script here, and return its answer; raises HostError with its complaint where it fails."""
    try:
        done = bounded.run_script(script, timeout=_SCRIPT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"the node does not answer itself: {error}") from error
    answer = Answer.of(done.stdout.decode("utf-8", "surrogateescape"))
    if answer.status != 0:
        stderr = done.stderr.decode("utf-8", "replace").strip()
        raise HostError(stderr or f"the script failed with {answer.status}")
    return answer


def status_of(trial: BootRecord, last_seen: Status | None = None) -> Status:
    """Return how far the change of a plan on trial is."""
    return clear_status(partial(ask, transaction.status_script(trial.transaction, last_seen)))


def nothing_changed(status: Status) -> bool:
    """Whether a change has ended, or never begun, without changing anything."""
    return status.result is None or status.result.outcome in ("void", "refused", "unknown")


def follow(trial: BootRecord) -> Status:
    """Return the status of a plan on trial once its change has ended, or waits for its confirmation.

    A change that was broken off is ended first. Raises HostError where that is not possible, and where the
    change waits for pods to leave.
    """
    status: Status | None = None
    settled = False
    while True:
        began = time.monotonic()
        status = status_of(trial, status)
        if status.parked:
            raise transaction.parked_error(trial.transaction, status.parked)
        if status.result is not None or status.waits or status.unknown:
            return status
        if status.broken_off and status.phase != "reboot":
            if settled:
                raise HostError(f"the transaction {trial.transaction} was broken off, and does not end")
            ask(transaction.settle_script())
            settled = True
        time.sleep(max(0.0, _PAUSE_SECONDS - (time.monotonic() - began)))


def keep(trial: BootRecord, status: Status, confirmed: str) -> BootRecord:
    """Confirm the change of a plan on trial, and put the plan into effect once the change is lasting."""
    record = note_confirmed(trial, confirmed)
    ask(transaction.confirm_script(trial.transaction, status.token))
    while status.result is None:
        time.sleep(_PAUSE_SECONDS)
        status = status_of(trial, status)
    if status.result.outcome != "applied":
        raise HostError(status.result.message)
    return accept(record)


def conclude(trial: BootRecord, status: Status) -> int:
    """Record how a plan on trial has ended; return the number of its next attempt."""
    if status.result is None or nothing_changed(status):
        forget(TRIAL)
        return trial.attempt
    if status.result.outcome == "applied":
        accept(trial)
        return 1
    # A power cut is not the plan's fault; a crash of the kernel is, and comes again.
    is_blamed = Path(TRANSACTIONS, trial.transaction, "blamed").exists()  # `blame` in transaction.sh
    broken_off = status.result.outcome == "rolled-back" and not is_blamed
    if broken_off and trial.attempt < MOST_ATTEMPTS:
        forget(TRIAL)
        return trial.attempt + 1
    times = f"broken off {trial.attempt} times, the last time: " if broken_off else ""
    reject(not_tried_again(trial.profile, "was undone", f"{times}{status.result.reason}"))
    return 1


def not_tried_again(profile: str, what: str, reason: str) -> str:
    """Return why a plan that failed is not in effect, as the login prompt shows it."""
    return (
        f"the plan of profile {profile} {what}, and is not tried again before one of its inputs changes, or "
        f"with `numaforge boot --replan` ({reason})"
    )


def await_renewal(login: KubeletLogin, name: str, deadline: float) -> None:
    """Wait until the kubelet renews its Node's lease, which it does every ten seconds.

    That proves that it reaches the API server with its own login now, independent of clocks. Raises
    HostUnreachableError at the deadline, a time of `time.monotonic()`.
    """
    renewed_before = login.renewed_at(name)
    while login.renewed_at(name) == renewed_before:
        if time.monotonic() > deadline:
            raise HostUnreachableError("the kubelet does not renew its Node's lease")
        time.sleep(_PAUSE_SECONDS)


def keep_once_reached(login: KubeletLogin, name: str, deadline: float, say_line: Tell) -> None:
    """Confirm a plan on trial once the kubelet reaches its API server with it."""
    trial = BootRecord.saved(TRIAL)
    if trial is None or not (status := status_of(trial)).waits:
        return  # the next start of the kubelet concludes it
    await_renewal(login, name, deadline)
    keep(trial, status, f"the API server {login.host}:{login.port}, reached with the kubelet's login")
    say_line(f"the plan of profile {trial.profile} stays: the kubelet reaches the API server with it")
