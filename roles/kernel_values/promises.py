"""Values of the running kernel, as they are now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numaforge.lib import shell
from numaforge.machine.knobs import KNOB_AT
from numaforge.roles.kernel_values import paths as kernel_values_paths
from numaforge.roles.kernel_values.sysctls import reaches
from numaforge.verification.promise import (
    Promise,
    Table,
    require,
    require_equal,
    value_is,
    values_of,
)

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def governors(plan: NodePlan) -> Table:
    """The governor of each CPU."""
    return {
        f"cpu{cpu}": (kernel_values_paths.governor(cpu), value)
        for cpu, value in sorted(plan.tuning.governors.items())
    }


def energy_preferences(plan: NodePlan) -> Table:
    """The energy preference of each CPU."""
    return {
        f"cpu{cpu}": (kernel_values_paths.energy_preference(cpu), value)
        for cpu, value in sorted(plan.tuning.energy_preferences.items())
    }


def idle_states(plan: NodePlan) -> Table:
    """The sleep states that are switched off, by CPU."""
    return {
        f"cpu{cpu}-state{state.index}": (kernel_values_paths.idle_state(cpu, state.index), "1")
        for state in plan.tuning.idle_states_off
        for cpu in sorted(state.cpus)
    }


def kernel_values(plan: NodePlan) -> Table:
    """The value of each knob, by its key in a profile."""
    values = kernel_values_paths.knob_values(plan.tuning)
    return {KNOB_AT[path].key: (path, value) for path, value in sorted(values.items())}


def sysctls(plan: NodePlan) -> Table:
    """Each kernel parameter."""
    return {
        name: (kernel_values_paths.sysctl(name), value) for name, value in sorted(plan.tuning.sysctls.items())
    }


def raised_sysctls(plan: NodePlan) -> Table:
    """The minimum of each limit of the kernel."""
    return {
        name: (kernel_values_paths.sysctl(name), value)
        for name, value in sorted(plan.tuning.raised_sysctls.items())
    }


def swap(plan: NodePlan) -> Table:
    """No swap, where the plan turns it off."""
    return {"off": ()} if plan.tuning.swap_off else {}


def _asks(_plan: NodePlan) -> tuple[str, ...]:
    """Return the shell command that lists swap."""
    return (shell.call("tell_swap"),)


def _kernel_value(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, chosen = expected
    offered = node.value(path) or ""
    active_word = re.findall(r"\[(.*)\]", offered) or [
        offered
    ]  # the word in brackets of `always [madvise] never`
    require(active_word == [chosen], f"{offered or 'absent'}, planned {chosen} ({path})")


def _sysctl(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, value = expected
    actual = node.value(path)
    require_equal(None if actual is None else " ".join(actual.split()), " ".join(value.split()))


def _sysctl_is_at_least(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, least = expected
    actual = node.value(path)
    require(reaches(actual, least), f"{'absent' if actual is None else actual}, planned at least {least}")


def _swap(node: VerifiedNode, name: str, expected: tuple[str, ...]) -> None:
    devices = tuple(device for device, _ in node.live.lines("swap"))
    require(devices == expected, f"swap is on ({', '.join(devices)}), planned off")


PROMISES = (
    Promise(
        "governor",
        governors,
        value_is,
        patterns=("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor",),
    ),
    Promise(
        "energy_preference",
        energy_preferences,
        value_is,
        patterns=("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/energy_performance_preference",),
    ),
    Promise(
        "idle_state_is_off",
        idle_states,
        value_is,
        patterns=("/sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/disable",),
    ),
    Promise("kernel_value", kernel_values, _kernel_value, values=values_of(kernel_values)),
    Promise("sysctl", sysctls, _sysctl, values=values_of(sysctls)),
    Promise("sysctl_is_at_least", raised_sysctls, _sysctl_is_at_least, values=values_of(raised_sysctls)),
    Promise("swap", swap, _swap, asks=_asks),
)
