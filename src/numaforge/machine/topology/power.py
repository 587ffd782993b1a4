"""The sleep states of idle CPUs."""

from __future__ import annotations

import re

from numaforge.lib.given import digits
from numaforge.machine.topology.cpus import Inventory
from numaforge.machine.topology.model import IdleState

_LATENCY = re.compile(r"cpuidle/state([0-9]{1,4})/latency")


def read_idle_states(inventory: Inventory) -> tuple[IdleState, ...] | None:
    """Return the sleep states of the online CPUs by index, or None where the kernel manages none."""
    cpus: dict[tuple[int, int, str], set[int]] = {}
    for cpu in inventory.online:
        files = inventory.files.get(cpu, {})
        for name, text in files.items():
            if (match := _LATENCY.fullmatch(name)) and (latency := digits(text)) is not None:
                state = files.get(f"cpuidle/state{match[1]}/name", "").strip()
                cpus.setdefault((int(match[1]), latency, state), set()).add(cpu)
    states = tuple(
        IdleState(index, name or None, latency, frozenset(files))
        for (index, latency, name), files in sorted(cpus.items())
    )
    return states or None
