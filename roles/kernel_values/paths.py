"""Where the kernel keeps the values that a plan sets: a governor, a sysctl, a switch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numaforge.lib.errors import PlanError
from numaforge.machine.knobs import KNOB_AT, KNOBS

if TYPE_CHECKING:
    from numaforge.roles.kernel_values.plan import TuningPlan

_FOLDERS = {knob.feature.field: knob.feature.folder for knob in KNOBS if knob.feature and knob.feature.field}


GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
ENERGY_PREFERENCE = "/sys/devices/system/cpu/cpu{}/cpufreq/energy_performance_preference"
IDLE_STATE = "/sys/devices/system/cpu/cpu{}/cpuidle/state{}/disable"
ONLINE = "/sys/devices/system/cpu/cpu{}/online"


def online(cpu: int) -> str:
    """Return the path of the switch that takes a CPU offline."""
    return ONLINE.format(cpu)


def switched_cpu(path: str) -> int | None:
    """Return the CPU that a path of `online` switches, None for any other path."""
    match = re.fullmatch(r"/sys/devices/system/cpu/cpu(\d+)/online", path)
    return int(match[1]) if match else None


def sysctl(name: str) -> str:
    """Return the path of a sysctl; as in sysctl.d(5), a name whose first separator is "/" keeps its dots.

    Raises PlanError for a name that leads out of /proc/sys.
    """
    first = re.search(r"[./]", name)
    path = name if first and first[0] == "/" else name.translate(str.maketrans("./", "/."))
    if {"", ".", ".."}.intersection(path.split("/")):
        raise PlanError(
            f"{name!r} is not a sysctl",
            where="sysctls",
            remedy="write its dotted name, for example vm.swappiness",
        )
    return f"/proc/sys/{path}"


def knob_values(tuning: TuningPlan) -> dict[str, str]:
    """Return the value of each knob below /sys that the tuning sets, by path."""
    values_of = {field: getattr(tuning, field) for field in _FOLDERS}
    values_of["ksm"] = {} if tuning.ksm is None else {"run": tuning.ksm}
    return {
        **tuning.values,
        **{
            f"{_FOLDERS[field]}{name}": values_of[field][name]
            for field in values_of
            for name in values_of[field]
        },
    }


def knob_fields(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a TuningPlan for these values of knobs, given by path."""
    fields: dict[str, dict[str, str]] = {field: {} for field in (*_FOLDERS, "values")}
    for path, value in sorted(values.items()):
        feature = KNOB_AT[path].feature
        field = (feature and feature.field) or "values"
        fields[field][path.removeprefix(_FOLDERS.get(field, ""))] = value
    return {**fields, "ksm": fields["ksm"].get("run")}
