"""Whether the running kernel still has the planned values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.findings.drift import DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity
from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.knobs import KNOB_AT
from numaforge.roles.kernel_values.paths import knob_values
from numaforge.roles.kernel_values.sysctls import reaches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan


def _values(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    for path, value in sorted(knob_values(plan.tuning).items()):
        actual = machine.kernel_values.get(path)
        if actual is None:
            yield Seen(unknown=f"{path} was not read")
        elif actual != value:
            yield Seen(f"{actual}, planned {value}", KNOB_AT[path].key)


def _scaling(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    scaling = machine.cpufreq
    readings = {
        "governor": (plan.tuning.governors, scaling.governors if scaling else {}),
        "energy preference": (plan.tuning.energy_preferences, scaling.energy_preferences if scaling else {}),
    }
    for setting, (planned, actual) in readings.items():
        deviating: dict[tuple[str, str], set[int]] = {}
        for cpu, value in planned.items():
            value_now = actual.get(cpu)
            if value_now is not None and value_now != value:
                deviating.setdefault((value_now, value), set()).add(cpu)
        for (value_now, value), cpus in deviating.items():
            yield Seen(f"{value_now} on CPUs {format_cpulist(frozenset(cpus))}, planned {value}", setting)


def _sysctls(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    exact, least = plan.tuning.sysctls, plan.tuning.raised_sysctls
    for name, value in sorted({**exact, **least}.items()):
        actual = machine.sysctls.get(name)
        if actual is None:
            yield Seen(unknown=f"{name} was not read")
        elif name in exact and actual.split() != value.split():
            yield Seen(f"{actual}, planned {value}", name)
        elif name not in exact and not reaches(actual, value):
            yield Seen(f"{actual}, planned at least {value}", name)


DRIFT = (
    DriftRule("NP104", Severity.ERROR, "a value of the kernel is not as planned", _values),
    DriftRule("NP105", Severity.ERROR, "frequency scaling is not as planned", _scaling),
    DriftRule("NP106", Severity.ERROR, "a sysctl is not as planned", _sysctls),
)
