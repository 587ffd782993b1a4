"""Values of the running kernel, as a node compares them by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.machine.knobs import KNOB_AT
from numaforge.roles.kernel_values import paths
from numaforge.watched import Compared, Counted, Family, Held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numaforge.planning.plan import NodePlan

_GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
_ENERGY = "/sys/devices/system/cpu/cpu{}/cpufreq/energy_performance_preference"
_IDLE = "/sys/devices/system/cpu/cpu{{}}/cpuidle/state{}/disable"
_ONLINE = "/sys/devices/system/cpu/cpu{}/online"


def compared(plan: NodePlan) -> Iterator[Compared]:
    """Yield each value that the plan sets; CPUs with the same value are one entry."""
    tuning = plan.tuning
    yield from _by_value("governor", _GOVERNOR, tuning.governors)
    yield from _by_value("energy_preference", _ENERGY, tuning.energy_preferences)
    for state in tuning.idle_states_off:
        yield Compared("idle_states", _IDLE.format(state.index), "1", cpus=state.cpus)
    if tuning.offline.cpus:
        yield Compared("offline_cpus", _ONLINE, "0", cpus=tuning.offline.cpus)
    for path, value in sorted(paths.knob_values(tuning).items()):
        yield Compared(f"kernel_value:{KNOB_AT[path].key}", path, value)
    for name, value in sorted(tuning.sysctls.items()):
        yield Compared(f"sysctl:{name}", paths.sysctl(name), value)
    for name, value in sorted(tuning.raised_sysctls.items()):
        yield Compared(f"sysctl:{name}", paths.sysctl(name), value, Held.LEAST)
    if tuning.swap_off:
        yield Compared("swap", "/proc/swaps", "1", Held.LINES)  # only the header


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return the governors of the online CPUs; a machine without frequency scaling has none."""
    return (
        Family(
            "numaforge_cpu_governor",
            "gauge",
            "CPUs with this frequency governor.",
            (Counted("governor", _GOVERNOR, plan.cpus.online),),
        ),
    )


def _by_value(subject: str, path: str, values: Mapping[int, str]) -> Iterator[Compared]:
    for value in sorted({*values.values()}):
        cpus = frozenset(cpu for cpu, cpu_value in values.items() if cpu_value == value)
        yield Compared(subject, path, value, cpus=cpus)
