"""The lead of a roll-out: a Lease, so that only one process runs the roll-out of a given name."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numaforge.lib.given import NotJsonError, parse_json
from numaforge.rollout.cluster import ApiUnreachableError, Cluster, ClusterError, ConflictError, Lease
from numaforge.rollout.patience import retried
from numaforge.rollout.runner import owner_of
from numaforge.rollout.shards import FAR, is_part_of
from numaforge.rollout.slots import RENEW_SECONDS, SILENT_SECONDS, LeaseWatch
from numaforge.rollout.steps import Clock, Steps

ROLLOUT = "numaforge-rollout-"
STATE = "numaforge.io/rollout-state"
STOP = "numaforge.io/rollout-stop"

_ASK_AGAIN_SECONDS = 2.0


class LedError(ClusterError):
    """Another process leads this roll-out, or has left it unfinished."""


@dataclass
class Lead:
    """The lead, held by this process."""

    cluster: Cluster
    lease: Lease
    clock: Clock
    _renewed: float = float("-inf")

    def keep(self) -> str | None:
        """Renew the Lease when due; return why nothing new may begin, None where it may."""
        if self.clock() - self._renewed < RENEW_SECONDS:
            return None
        try:
            self.lease = self.cluster.put_lease(self.lease)
        except ApiUnreachableError:
            return None
        except ConflictError:
            return self._why_it_changed()
        self._renewed = self.clock()
        return None

    @property
    def state(self) -> dict[str, Any]:
        """The roll-out's state on the Lease."""
        return read_state(self.lease)

    def note(self, news: Mapping[str, Any]) -> None:
        """Add to the Lease's state; a change makes the next `keep` renew the Lease at once."""
        state = {**self.state, **news}
        if state != self.state:
            annotations = {**self.lease.annotations, STATE: json.dumps(state)}
            self.lease = replace(self.lease, annotations=annotations)
            self._renewed = float("-inf")

    def end(self, state: Mapping[str, Any]) -> None:
        """Release the lead with a final state, repeatedly if need be; raises LedError where it was taken."""
        annotations = {STATE: json.dumps(state)}

        def change() -> None:
            lease = self.cluster.lease(self.lease.name)
            if (lease.holder, dict(lease.annotations)) == ("", annotations):
                return  # done, and only the answer was lost
            if lease.holder != self.lease.holder:
                raise LedError(f"{lease.holder or 'no process'} leads it now", where=self.lease.name)
            self.cluster.put_lease(replace(lease, holder="", annotations=annotations))

        retried(change, where=self.lease.name)

    def _why_it_changed(self) -> str | None:
        try:
            lease = self.cluster.lease(self.lease.name)
        except ApiUnreachableError:
            return None
        if lease.holder != self.lease.holder:
            return f"{lease.holder or 'no process'} leads it now"
        self.lease = lease
        stop = lease.annotations.get(STOP)
        return f"stopped by {stop}" if stop else None


def take_lead(
    cluster: Cluster,
    name: str,
    runner: str,
    state: Mapping[str, Any],
    *,
    go_on: bool,
    clock: Clock,
    once: bool = False,
) -> Steps[Lead]:
    """Take the lead of the roll-out of that name; with `go_on`, also from a process that died.

    A name that is used `once` belongs to one roll-out for good, as a shard's does: its progress is kept, and
    it is not begun again without `go_on`. Raises LedError where another process leads it, or where it was
    left unfinished and `go_on` is not set.
    """
    lease = cluster.lease(ROLLOUT + name)
    if lease.holder != runner:
        lease = yield from _await_death(cluster, lease, LeaseWatch(clock))
    if lease.holder not in ("", runner) and not go_on:
        raise LedError(
            f"{owner_of(lease.holder)} has left this roll-out unfinished",
            where=name,
            remedy="continue it (`numaforge rollout resume`), or end it (`numaforge rollout abort`)",
        )
    previous = read_state(lease)
    if once and "ended" in previous and not go_on:
        raise LedError(
            "this roll-out has ended, and its other shards know it by its name",
            where=name,
            remedy="choose another --name, for all shards; or resume this one (`numaforge rollout resume`)",
        )
    if once and FAR in previous:
        state = {**state, FAR: previous[FAR]}
    try:  # the Lease as read: a process that has taken it since leads
        lease = cluster.put_lease(replace(lease, holder=runner, annotations={STATE: json.dumps(state)}))
    except ConflictError as conflict:
        raise LedError("another process takes the lead at this moment", where=name) from conflict
    return Lead(cluster, lease, clock)


def stop_lead(cluster: Cluster, name: str, runner: str) -> str:
    """Tell the leaders of a roll-out and its shards to begin nothing new; return who they are, or ""."""

    def change() -> str:
        led = [lease for lease in _leads(cluster, name) if lease.holder]
        for lease in led:
            cluster.put_lease(replace(lease, annotations={**lease.annotations, STOP: runner}))
        return _listed(lease.holder for lease in led)

    return retried(change, where=name)


def end_lead(cluster: Cluster, name: str, why: str, watch: LeaseWatch) -> str:
    """Return who leads a roll-out or its shards, "" where no process does; end leads of dead processes."""
    return _listed([_end(cluster, lease, why, watch) for lease in _leads(cluster, name)])


def _end(cluster: Cluster, lease: Lease, why: str, watch: LeaseWatch) -> str:
    if not lease.holder or not watch.tells_dead(lease):
        return lease.holder
    state = {**read_state(lease), "ended": why}
    try:
        cluster.put_lease(replace(lease, holder="", annotations={STATE: json.dumps(state)}))
    except ConflictError:  # it is alive after all
        return lease.holder
    return ""


def _leads(cluster: Cluster, name: str) -> list[Lease]:
    """Return the Leases of a roll-out: its own, and those of its shards."""
    leases = [lease for lease in cluster.leases() if lease.name.startswith(ROLLOUT)]
    return [lease for lease in leases if is_part_of(lease.name.removeprefix(ROLLOUT), name)]


def _listed(holders: Iterable[str]) -> str:
    return ", ".join(filter(None, holders))


def states(leases: Iterable[Lease]) -> list[tuple[str, dict[str, Any]]]:
    """Return the names of roll-outs, with the states on their Leases."""
    led = [lease for lease in leases if lease.name.startswith(ROLLOUT)]
    return [(lease.name.removeprefix(ROLLOUT), read_state(lease)) for lease in led]


def read_state(lease: Lease) -> dict[str, Any]:
    """Return the roll-out's state on a Lease; empty where there is none that can be read."""
    try:
        state = parse_json(lease.annotations.get(STATE, "{}"))
    except NotJsonError:  # not written by us
        return {}
    return state if isinstance(state, dict) else {}


def _await_death(cluster: Cluster, lease: Lease, watch: LeaseWatch) -> Steps[Lease]:
    first = lease
    while lease.holder and not watch.tells_dead(lease):
        yield _ASK_AGAIN_SECONDS
        lease = cluster.lease(lease.name)
        if lease.holder and lease.resource_version != first.resource_version:
            raise LedError(
                f"{lease.holder} leads this roll-out",
                where=lease.name.removeprefix(ROLLOUT),
                remedy=f"wait for it, or choose another --name; it is silent for {SILENT_SECONDS:.0f} s "
                "before it is taken for dead",
            )
    return lease
