"""One maintenance of a node: the changes of all roles within it, carried out together.

The modules that carry it out are imported once there is a plan, so that a deploy contacts its hosts at once.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyinfra import host

from numaforge.lib.errors import HostError
from numaforge.rollout import events
from numaforge.rollout.names import PLACE, RETRY_FAILED
from numaforge.run.hosts.display import show_alone
from numaforge.run.hosts.host_data import datum
from numaforge.run.hosts.overview import MAINTENANCE
from numaforge.run.hosts.roles import guarded, planned, role, roles_of, seen

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["maintenance", "take_part"]

_open: set[str] = set()
"""Names of the hosts whose deploy is inside `with maintenance():`."""


@contextmanager
def maintenance() -> Iterator[None]:
    """Carry out the changes of all roles called within it together, with one drain.

    A role called outside a maintenance is a maintenance of its own.

    Host data: `kubelet_start_seconds` (120) and `kubelet_stable_seconds` (10), how long the kubelet may take
    to become healthy, and how long it must stay healthy; `numaforge_confirm_seconds` (300), how long a
    changed host waits for confirmation over a new connection before it rolls back; `numaforge_rollout`, how a
    cluster node is taken out of service (numaforge.rollout.options). `numaforge rollout` adds its command
    line options as `numaforge_rollout_options`, and this run's part in the roll-out as
    `numaforge_rollout_run`.
    """
    name = host.name
    _open.add(name)
    try:
        yield
    finally:
        _open.discard(name)
    _carry_out()


def take_part(called: str, title: str, **arguments: Any) -> None:
    """Carry out the roles of this name, in their maintenance or alone; `arguments` are pyinfra's own."""

    def called_for() -> None:
        from numaforge.change.parts import PARTS

        for part in PARTS:
            nothing_to_do = part.nothing_to_do if part.role.called == called else None
            if nothing_to_do is not None and (reason := nothing_to_do(planned(host))):
                event, sentence = reason
                events.record(event, host.name)
                show_alone(host, sentence)
        if host.name not in _open:
            _carry_out()

    if host.name in _open and not arguments:
        guarded(called_for, called)()  # not a pyinfra deploy: it contains no operation
    else:
        role(title, called)(called_for)(**arguments)


@role("Maintenance")
def _carry_out() -> None:
    from numaforge.change.goal import Goal
    from numaforge.rollout.options import read_options

    from .operations import maintain
    from .target import Target

    plan = planned(host)
    options = read_options(host.data.get(PLACE), host.data.get(f"{PLACE}_options"))
    goal = Goal(
        plan,
        seen(host),
        frozenset(roles_of(host)),
        start_seconds=datum(host, "kubelet_start_seconds"),
        stable_seconds=datum(host, "kubelet_stable_seconds"),
        confirm_seconds=datum(host, "numaforge_confirm_seconds"),
        retry_failed=options.retry_failed or datum(host, RETRY_FAILED),
        ends_work=frozenset(options.ends_work),
    )
    target = Target(goal)
    if target.joined and options.without_drain is not None and events.heard():
        raise HostError(
            f"the node {target.node} is joined, and a roll-out changes no node that it has not drained",
            where=f"{PLACE}.without_drain",
            remedy="remove without_drain, or run plain pyinfra, which obeys it",
        )
    maintain(
        name=MAINTENANCE, target=target, options=options, led=host.data.get(f"{PLACE}_options") is not None
    )
