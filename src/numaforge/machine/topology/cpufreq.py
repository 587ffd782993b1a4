"""Frequency scaling: drivers, governors and energy preferences, by CPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from numaforge.machine.topology.cpus import Inventory
from numaforge.machine.topology.model import Cpufreq


def read_cpufreq(inventory: Inventory) -> Cpufreq | None:
    """Return what the scaling driver offers, or None where no CPU has a governor, as in most guests."""

    def said(name: str) -> dict[int, str]:
        governors = {
            cpu: inventory.files.get(cpu, {}).get(f"cpufreq/{name}", "").strip() for cpu in inventory.online
        }
        return {cpu: text for cpu, text in sorted(governors.items()) if text}

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
