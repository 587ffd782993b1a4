"""Roles on a host: those called in this run, and their shared facts of the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from pyinfra import host as current_host
from pyinfra.api import Host, deploy
from pyinfra.api.arguments_typed import PyinfraOperation

from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.run.hosts.errors import fault
from numaforge.run.hosts.failures import fail_host

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan

_roles: WeakKeyDictionary[Host, list[str]] = WeakKeyDictionary()


def role(title: str, name: str | None = None) -> Callable[[Callable[[], None]], PyinfraOperation[[]]]:
    """Make a role's deploy function, whose errors fail their own host; `name` if it is not its `title`."""

    def decorate(function: Callable[[], None]) -> PyinfraOperation[[]]:
        return deploy(title)(guarded(function, name or title.lower()))

    return decorate


def guarded(function: Callable[[], None], name: str) -> Callable[[], None]:
    """Return the function that runs a role of this name on the deploy's host; see `role`."""

    @wraps(function)
    def on_host() -> None:
        host = current_host
        if host in host.state.failed_hosts:
            return
        _roles.setdefault(host, []).append(name)
        try:
            function()
        except NumaforgeError as error:
            fail_host(host, error)
        except Exception as error:  # one odd host must not end the run of all
            fail_host(host, fault(error))

    return on_host


def remember(host: Host, topology: NodeTopology, plan: NodePlan) -> None:
    """Keep what the run knows about a host, for the roles that follow."""
    host.data.numaforge_topology = topology
    host.data.numaforge_plan = plan


def planned(host: Host) -> NodePlan:
    """Return the host's plan; raises HostError in a deploy that calls a role before the role `topology`."""
    plan: NodePlan | None = host.data.get("numaforge_plan")
    if plan is None:
        raise HostError("there is no plan yet", remedy="call topology() first in the deploy")
    return plan


def seen(host: Host) -> NodeTopology:
    """Return the host's topology as the role `topology` found it."""
    planned(host)
    return cast("NodeTopology", host.data.numaforge_topology)


def roles_of(host: Host) -> tuple[str, ...]:
    """Return the roles that this run has called for a host, as the plan's files name them."""
    return tuple(_roles.get(host, ()))
