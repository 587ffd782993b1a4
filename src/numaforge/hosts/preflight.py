"""Ask a host whether it can be changed, and tell the process that started this run."""

from __future__ import annotations

import time

from pyinfra import host

from numaforge.errors import HostError
from numaforge.hosts.facts import as_root, right
from numaforge.hosts.failures import fail_host
from numaforge.preflight import host as preflight
from numaforge.rollout import events

PREFLIGHT = "preflight"
"""The kind of the event."""


def examine() -> None:
    """Ask the host of this deploy, in one round trip; nothing on it is changed."""
    if host in host.state.failed_hosts:
        return
    begun = time.time()
    try:
        answer = as_root(host, preflight.script())
    except HostError as error:
        fail_host(host, error)
        return
    events.record(
        PREFLIGHT,
        host.name,
        right=right(answer),
        answer=preflight.told(answer),
        asked_at=begun,
        answered_at=time.time(),
    )
