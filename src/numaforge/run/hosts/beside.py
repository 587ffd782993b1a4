"""A deploy's changes besides maintenances, as events for the roll-out that asks.

A host without a maintenance needs its run if another operation of the deploy changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from pyinfra.api import State

from numaforge.rollout import events
from numaforge.run.hosts.overview import MAINTENANCE
from numaforge.run.hosts.processes import hosts_of


def recorded(show: Callable[[State], None]) -> Callable[[State], None]:
    """Make the display of a dry run's changes also record them, host by host."""

    @wraps(show)
    def show_and_record(state: State) -> None:
        show(state)
        for host in hosts_of(state):
            does = [
                name
                for operation, data in state.ops[host].items()
                if data.operation_meta._maybe_is_change
                for name in sorted(state.get_op_meta(operation).names)
                if not name.endswith(MAINTENANCE)
            ]
            if does:
                events.record("beside", host.name, does=does)

    return show_and_record
