"""The lead of a roll-out: a Lease, so that one roll-out, known by its name, is run by one process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from numaforge.rollout.cluster import ApiAwayError, Cluster, ClusterError, ConflictError, Lease, find_lease
from numaforge.rollout.patience import retried
from numaforge.rollout.runner import owner_of
from numaforge.rollout.slots import RENEW_SECONDS, SILENT_SECONDS, Silence
from numaforge.rollout.steps import Clock, Steps

ROLLOUT = "numaforge-rollout-"
STATE = "numaforge.io/rollout-state"
STOP = "numaforge.io/rollout-stop"

_ASK_AGAIN_SECONDS = 2.0


class LedError(ClusterError):
    """Somebody else leads this roll-out, or has left it unfinished."""


@dataclass
class Lead:
    """The lead, held by this process."""

    cluster: Cluster
    lease: Lease
    clock: Clock
    _renewed: float = float("-inf")

    def keep(self) -> str | None:
        """Renew the Lease where it is time; return why nothing new is to be begun, if so."""
        if self.clock() - self._renewed < RENEW_SECONDS:
            return None
        try:
            self.lease = self.cluster.put_lease(self.lease)
        except ApiAwayError:
            return None
        except ConflictError:
            return self._why_it_changed()
        self._renewed = self.clock()
        return None

    def end(self, state: Mapping[str, Any]) -> None:
        """Give the lead back, and leave on it how the roll-out ended.

        Raises LedError where somebody else has taken it. After ApiAwayError it may be called again.
        """
        annotations = {STATE: json.dumps(state)}

        def change() -> None:
            found = find_lease(self.cluster, self.lease.name)
            if (found.holder, dict(found.annotations)) == ("", annotations):
                return  # done, and only the answer was lost
            if found.holder != self.lease.holder:
                raise LedError(f"{found.holder or 'nobody'} leads it now", where=self.lease.name)
            self.cluster.put_lease(replace(found, holder="", annotations=annotations))

        retried(change, where=self.lease.name)

    def _why_it_changed(self) -> str | None:
        try:
            found = find_lease(self.cluster, self.lease.name)
        except ApiAwayError:
            return None
        if found.holder != self.lease.holder:
            return f"{found.holder or 'nobody'} leads it now"
        self.lease = found
        stop = found.annotations.get(STOP)
        return f"stopped by {stop}" if stop else None


def take_lead(
    cluster: Cluster,
    name: str,
    runner: str,
    state: Mapping[str, Any],
    *,
    go_on: bool,
    clock: Clock,
) -> Steps[Lead]:
    """Take the lead of the roll-out of that name; with `go_on`, also from a process that died.

    Raises LedError where somebody else leads it, or where it was left unfinished and is not to be gone on
    with.
    """
    lease = find_lease(cluster, ROLLOUT + name)
    if lease.holder != runner:
        lease = yield from _await_death(cluster, lease, Silence(clock))
    if lease.holder not in ("", runner) and not go_on:
        raise LedError(
            f"{owner_of(lease.holder)} has left this roll-out unfinished",
            where=name,
            remedy="go on with it (numaforge rollout resume), or end it (numaforge rollout abort)",
        )
    try:  # the Lease as it was looked at: who has taken it since leads
        lease = cluster.put_lease(replace(lease, holder=runner, annotations={STATE: json.dumps(state)}))
    except ConflictError as conflict:
        raise LedError("somebody else takes the lead at this moment", where=name) from conflict
    return Lead(cluster, lease, clock)


def stop_lead(cluster: Cluster, name: str, who: str) -> str:
    """Tell the leader of a roll-out to begin nothing new, and return who that is; "" where nobody leads."""

    def change() -> str:
        lease = find_lease(cluster, ROLLOUT + name)
        if lease.holder:
            cluster.put_lease(replace(lease, annotations={**lease.annotations, STOP: who}))
        return lease.holder

    return retried(change, where=name)


def end_lead(cluster: Cluster, name: str, why: str, silence: Silence) -> str:
    """Return who leads a roll-out, "" where nobody does: the living end theirs, that of the dead is ended."""
    lease = find_lease(cluster, ROLLOUT + name)
    if not lease.holder or not silence.tells_dead(lease):
        return lease.holder
    state = {**read_state(lease), "ended": why}
    try:
        cluster.put_lease(replace(lease, holder="", annotations={STATE: json.dumps(state)}))
    except ConflictError:  # not as dead as it seemed
        return lease.holder
    return ""


def read_state(lease: Lease) -> dict[str, Any]:
    """Return what stands on the Lease about its roll-out."""
    try:
        state = json.loads(lease.annotations.get(STATE, "{}"))
    except (ValueError, RecursionError):  # not our words
        return {}
    return state if isinstance(state, dict) else {}


def _await_death(cluster: Cluster, lease: Lease, silence: Silence) -> Steps[Lease]:
    """Return the Lease once nobody alive holds it."""
    first = lease
    while lease.holder and not silence.tells_dead(lease):
        yield _ASK_AGAIN_SECONDS
        lease = find_lease(cluster, lease.name)
        if lease.holder and lease.resource_version != first.resource_version:
            raise LedError(
                f"{lease.holder} leads this roll-out",
                where=lease.name.removeprefix(ROLLOUT),
                remedy=f"wait for it, or choose another --name; it is silent for {SILENT_SECONDS:.0f} s "
                "before it is taken for dead",
            )
    return lease
