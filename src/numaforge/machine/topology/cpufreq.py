"""Frequency scaling and idle states: drivers, governors, energy preferences and sleep states, by CPU."""

import re
from collections.abc import Iterable, Mapping
from functools import reduce

from numaforge.lib.given import digits
from numaforge.machine.topology.cpus import Inventory
from numaforge.machine.topology.model import Cpufreq, IdleState


def read_cpufreq(inventory: Inventory) -> Cpufreq | None:
    """Return what the scaling driver offers, or None where no CPU has a governor, as in most guests."""

    def said(name: str) -> dict[int, str]:
        files_of = {cpu: inventory.files.get(cpu, {}) for cpu in inventory.cpus.online}
        texts = {cpu: files.get(f"cpufreq/{name}", "") for cpu, files in files_of.items()}
        return {cpu: text.strip() for cpu, text in sorted(texts.items()) if text.strip()}

    governors = said("scaling_governor")
    if not governors:
        return None
    drivers = sorted(set(said("scaling_driver").values()))
    return Cpufreq(
        driver=",".join(drivers) or None,
        governors=governors,
        available=_offered_by_all(said("scaling_available_governors"), governors),
        energy_preferences=(preferences := said("energy_performance_preference")),
        available_energy_preferences=_offered_by_all(
            said("energy_performance_available_preferences"), preferences
        ),
    )


def _offered_by_all(offers: Mapping[int, str], cpus: Iterable[int]) -> tuple[str, ...]:
    lists = [offers.get(cpu, "").split() for cpu in cpus]
    common = reduce(lambda kept, offered: [word for word in kept if word in offered], lists) if lists else []
    return tuple(common)


_LATENCY = re.compile(r"cpuidle/state([0-9]{1,4})/latency")


def read_idle_states(inventory: Inventory) -> tuple[IdleState, ...] | None:
    """Return the sleep states of the online CPUs by index, or None where the kernel manages none."""
    cpus: dict[tuple[int, int, str], set[int]] = {}
    for cpu in inventory.cpus.online:
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
