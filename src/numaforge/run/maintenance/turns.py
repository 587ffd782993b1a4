"""The turn of each host in a run that no roll-out leads: canaries first, then the others within their limit.

pyinfra carries an operation out on all of its hosts at once. So each host that changes waits here for its
turn, in the order and within the limits of a roll-out (numaforge.rollout.fleet).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import gevent  # type: ignore[import-untyped]
from gevent.event import Event  # type: ignore[import-untyped]
from pyinfra import logger

from numaforge.lib.errors import ExitCode, HostError, NumaforgeError
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.record import Ending
from numaforge.run.hosts.interrupts import INTERRUPTED, refuse_if_stopped, stopped
from numaforge.run.hosts.processes import hosts_of

from .rehearsal import RefusedPlanError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinfra.api import Host

    from numaforge.rollout.fleet import Fleet, FleetSettings, Member
    from numaforge.rollout.options import RolloutOptions

_TICK_SECONDS = 0.2
_FRESH_SECONDS = 5.0
_ENDINGS = {
    ExitCode.ROLLED_BACK: Ending.ROLLED_BACK,
    ExitCode.HELD: Ending.HELD,
    ExitCode.UNREACHABLE: Ending.HELD,
}
"""How a host ends by the exit code of its error; with any other one nothing was changed on it."""


@dataclass
class HostTurn:
    """One host's turn; `late`: it has waited, and may be different; `ended` is how its change ended."""

    begins: Event = field(default_factory=Event)
    late: bool = False
    ended: Outcome | None = None

    def outcome(self) -> Outcome | None:
        """Return how the host's change ended, None while it is in progress."""
        return self.ended


@contextmanager
def turn(host: Host, options: RolloutOptions, *, counts: bool) -> Iterator[HostTurn]:
    """Wait until the host may change, within max_unavailable if it `counts`; note how the block ends."""
    refuse_if_stopped()
    hosts = hosts_of(host.state)
    if len(hosts) == 1:
        yield HostTurn()
        return
    from numaforge.rollout.fleet import FleetSettings  # only several hosts wait for each other

    operation, settings = str(host.executing_op_hash), FleetSettings.of(options)
    turns = _turns.setdefault((operation, settings), _Turns(operation, hosts, settings))
    own_turn = turns.wait(host, counts=counts)
    broken_off = Outcome(Ending.HELD, "its change broke off")
    try:
        yield own_turn
        own_turn.ended = own_turn.ended or Outcome(Ending.DONE)
    except RefusedPlanError as error:
        own_turn.ended = Outcome(Ending.REFUSED_BY_KUBELET, error.message)
        raise
    except NumaforgeError as error:
        own_turn.ended = Outcome(_ENDINGS.get(error.exit_code, Ending.BLOCKED), error.message)
        raise
    finally:
        own_turn.ended = own_turn.ended or broken_off


class _Turns:
    """The turns of one operation's hosts with equal settings, ordered once each has been looked at."""

    def __init__(self, operation: str, hosts: list[Host], settings: FleetSettings) -> None:
        self._operation = operation
        self._hosts = hosts
        self._settings = settings
        self._turn_of: dict[str, tuple[Member, HostTurn]] = {}
        self._driver: gevent.Greenlet | None = None
        self.fleet: Fleet | None = None

    def wait(self, host: Host, *, counts: bool) -> HostTurn:
        """Return the host's turn once it has come."""
        from numaforge.rollout.fleet import Member

        own_turn, member, since = HostTurn(), Member(host.name, None, counts=counts), time.monotonic()
        self._turn_of[host.name] = member, own_turn
        _ready.add((self._operation, host.name))
        if self.fleet is not None:
            self.fleet.add(member)
            self._require_canaries(self.fleet)
        if self._driver is None:
            self._driver = gevent.spawn(self._drive)
        own_turn.begins.wait()
        if self.fleet is None or host.name in self.fleet.waiting:
            why = self.fleet.stopped if self.fleet else "the order of the hosts could not be decided"
            error = HostError(f"not begun: {why}", remedy="nothing was changed on this host; run again")
            error.exit_code = ExitCode.BLOCKED
            raise error
        own_turn.late = time.monotonic() - since > _FRESH_SECONDS
        return own_turn

    def _drive(self) -> None:
        """Begin hosts as the fleet decides, until none is ready and none changes."""
        try:
            while any(map(self._is_looked_at, self._hosts)):
                gevent.sleep(_TICK_SECONDS)
            if self.fleet is None:
                self.fleet = self._new_fleet()
            for _ in self.fleet.run():
                if stopped() and not self.fleet.stopped:
                    self.fleet.stop(INTERRUPTED)
                gevent.sleep(_TICK_SECONDS)
        except Exception as error:  # no host may wait for ever
            if self.fleet is None:
                raise
            self.fleet.stop(str(error))
        finally:
            self._driver = None
            for _, own_turn in self._turn_of.values():
                own_turn.begins.set()

    def _new_fleet(self) -> Fleet:
        from numaforge.rollout.fleet import Fleet

        fleet = Fleet(
            cluster=None,
            members=[member for member, _ in self._turn_of.values()],
            settings=self._settings,
            launch=self._begin,
            clock=time.monotonic,
            tell=logger.info,
            outside=sum(self._operation in host.state.ops[host] for host in self._hosts),
            refused=sum(map(self._has_failed, self._hosts)),
        )
        first, count = list(fleet.waiting)[: self._settings.canaries], len(fleet.waiting)
        if 0 < len(first) < count:
            logger.info(f"{', '.join(first)} first, as a canary; {count - len(first)} more when it is done")
        self._require_canaries(fleet)
        return fleet

    def _is_looked_at(self, host: Host) -> bool:
        """Whether this host may become ready without waiting for another one."""
        begun = host.executing_op_hash == self._operation and not self._has_ended(host)
        return begun and (self._operation, host.name) not in _ready

    def _has_ended(self, host: Host) -> bool:
        data = host.state.ops[host].get(self._operation)
        return data is not None and bool(data.operation_meta.is_complete())

    def _has_failed(self, host: Host) -> bool:
        if host in host.state.failed_hosts:
            return True
        return (
            self._has_ended(host) and not host.state.ops[host][self._operation].operation_meta.did_succeed()
        )

    def _begin(self, member: Member) -> HostTurn:
        _, own_turn = self._turn_of[member.host]
        own_turn.begins.set()
        return own_turn

    def _require_canaries(self, fleet: Fleet) -> None:
        """Stop where others wait for a named canary of this run that will not be changed before them."""
        canaries = [host for host in self._hosts if host.name in self._settings.canary_hosts]
        if fleet.waiting.keys() <= {host.name for host in canaries}:
            return
        for host in canaries:
            runs_it = self._operation in host.state.ops[host]
            if host.name in self._turn_of or not (runs_it or host in host.state.failed_hosts):
                continue
            if self._has_failed(host):
                fleet.stop(f"{host.name} is a canary, and cannot be changed")
            elif not self._has_ended(host):
                fleet.stop(
                    f"{host.name} is a canary, and comes later in this run: run it first with --limit, "
                    "without --serial"
                )


_turns: dict[tuple[str, FleetSettings], _Turns] = {}
_ready: set[tuple[str, str]] = set()
"""The hosts that wait for their turn or have had it, by operation."""
