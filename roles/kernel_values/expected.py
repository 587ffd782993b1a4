"""The values of the running kernel that a plan sets, and swap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from numaforge.machine.knobs import KNOB_AT
from numaforge.roles.expectation import Comparison, Expected
from numaforge.roles.kernel_values.paths import (
    ENERGY_PREFERENCE,
    GOVERNOR,
    IDLE_STATE,
    ONLINE,
    knob_values,
    sysctl,
)

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.kernel_values.plan import TuningPlan

SWAPS = "/proc/swaps"


def expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield every value that the plan sets or raises, and swap."""
    yield from expected_files(plan.tuning)
    for name, value in sorted(plan.tuning.sysctls.items()):
        yield Expected(f"sysctl:{name}", sysctl(name), value)
    for name, value in sorted(plan.tuning.raised_sysctls.items()):
        yield Expected(f"sysctl:{name}", sysctl(name), value, Comparison.LEAST)
    if plan.tuning.swap_off:
        # Only the header is left; a kernel without swap has no such file.
        yield Expected("swap", SWAPS, "1", Comparison.LINES, optional=True)


def expected_files(tuning: TuningPlan) -> Iterator[Expected]:
    """Yield every value below /sys; CPUs with the same value are one row. CPUs go offline last."""
    yield from _by_value("governor", GOVERNOR, tuning.governors)
    yield from _by_value("energy_preference", ENERGY_PREFERENCE, tuning.energy_preferences)
    for state in tuning.idle_states_off:
        path = IDLE_STATE.format("{}", state.index)
        yield Expected(f"idle_state:{state.index}", path, "1", cpus=state.cpus)
    for path, value in sorted(knob_values(tuning).items()):
        yield Expected(f"kernel_value:{KNOB_AT[path].key}", path, value)
    if tuning.offline.cpus:
        yield Expected("offline_cpus", ONLINE, "0", cpus=tuning.offline.cpus)


def _by_value(what: str, path: str, values: Mapping[int, str]) -> Iterator[Expected]:
    for value in sorted({*values.values()}):
        cpus = frozenset(cpu for cpu, wanted in values.items() if wanted == value)
        yield Expected(what, path, value, cpus=cpus)
