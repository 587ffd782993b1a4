"""Kernel settings that the profile asks for and the host has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from numaforge.lib.codec import ByCpu, ByName, CpuSet
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.knobs import KNOB_AT, KNOBS, Knob
from numaforge.machine.topology.model import Cpufreq, NodeTopology
from numaforge.roles.cpus.offline import OfflinePlan
from numaforge.roles.kernel_values.keys import said, sysctl_knobs
from numaforge.roles.kernel_values.paths import knob_fields, knob_values
from numaforge.roles.kernel_values.sysctls import (
    RAISED_ONLY,
    Row,
    has_more,
    is_raised_only,
    refuse_odd_limits,
    rows_for,
    value_for,
)

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.kernel_values.section import CpuIdle, Tuning


@dataclass(frozen=True)
class IdleStateOff:
    """A sleep state that is switched off on these CPUs; `index` is the kernel's number for it."""

    index: int
    cpus: CpuSet


@dataclass(frozen=True)
class TuningPlan:
    """Kernel settings; empty means "left as it is". What the host lacks is named in the plan's notices.

    `raised_sysctls` are minimums of limits: a host with a higher value keeps it, now and at boot.
    """

    governors: ByCpu = field(default_factory=dict)  # by CPU
    energy_preferences: ByCpu = field(default_factory=dict)  # by CPU
    sysctls: ByName[str] = field(default_factory=dict)
    raised_sysctls: ByName[str] = field(default_factory=dict)
    transparent_hugepages: ByName[str] = field(
        default_factory=dict
    )  # "enabled", "khugepaged/defrag" -> value
    swap_off: bool = False
    idle_states_off: tuple[IdleStateOff, ...] = ()
    turbo: ByName[str] = field(default_factory=dict)  # "intel_pstate/no_turbo", "cpufreq/boost" -> value
    ksm: str | None = None  # "0", "1"
    values: ByName[str] = field(default_factory=dict)  # knobs without a field of their own, by path
    offline: OfflinePlan = OfflinePlan()


# Drivers that reject any energy preference but performance while their governor is performance
# (drivers/cpufreq/intel_pstate.c, amd-pstate.c).
_PERFORMANCE_IS_STRICT = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")

# Folders of which a snapshot holds only some keys.
_LISTED_IN_PART = {"net.ipv4.conf.all", "net.ipv4.conf.default"}


def plan_tuning(
    machine: NodeTopology, profile: NodeProfile, offline: OfflinePlan, previous: NodePlan | None
) -> Reasoned[TuningPlan]:
    """Return the settings to write; a notice names each one that this host does not have.

    A limit that an earlier plan raised stays planned whatever the host now has: raising does no harm. Raises
    PlanError for a governor and an energy preference that the cpufreq driver rejects together.
    """
    wish, sysctls_now = profile.tuning, machine.sysctls
    notices: list[Notice] = []
    _refuse_contradiction(machine.cpufreq, wish)
    rows = rows_for(machine, sysctls_now, wish.sysctl_sets, notices)
    of_sets = {name: value_for(machine, sysctls_now.get(name, ""), row) for name, (_, row) in rows.items()}
    chosen = _sysctls(machine, wish, of_sets, notices)
    refuse_odd_limits(chosen)
    set_by_us = {**previous.tuning.sysctls, **previous.tuning.raised_sysctls} if previous else {}
    raised = {name: value for name, value in chosen.items() if is_raised_only(name, value)}
    kept_values = {
        name: sysctls_now[name]
        for name, value in raised.items()
        if name not in set_by_us and has_more(sysctls_now.get(name), value)
    }
    plan = TuningPlan(
        governors=_governors(machine, wish, notices),
        energy_preferences=_energy_preferences(machine, wish, notices),
        sysctls={name: value for name, value in chosen.items() if name not in raised},
        raised_sysctls={name: value for name, value in raised.items() if name not in kept_values},
        swap_off=wish.swap == "off",
        idle_states_off=_idle_states_off(machine, wish.cpu_idle, notices),
        offline=offline,
        **knob_fields(_knobs(machine, wish, notices)),
    )
    reasons = {name: _sysctl_reason(profile, rows, of_sets, name) for name in chosen}
    decisions = (
        *_decisions(plan, profile),
        *_sysctl_decisions(plan, reasons),
        *_kept_decisions(kept_values, raised),
    )
    return Reasoned(plan, decisions, tuple(notices))


def _refuse_contradiction(cpufreq: Cpufreq | None, wish: Tuning) -> None:
    strict = cpufreq is not None and cpufreq.driver in _PERFORMANCE_IS_STRICT
    if strict and wish.governor == "performance" and wish.energy_preference not in (None, "performance"):
        raise PlanError(
            f"with the governor performance, {cpufreq.driver if cpufreq else ''} accepts no other energy "
            f"preference than performance, not {wish.energy_preference}",
            where="tuning.energy_preference",
            remedy="leave energy_preference out, or choose the governor powersave, which leaves the choice "
            "to it",
        )


def _governors(topology: NodeTopology, wish: Tuning, notices: list[Notice]) -> dict[int, str]:
    cpufreq = topology.cpufreq
    if wish.governor is None:
        return {}
    if cpufreq is None:
        notices.append(Notice("no-cpufreq", "no cpufreq: governor left alone"))
        return {}
    if wish.governor not in cpufreq.available:
        text = (
            f"the cpufreq driver {cpufreq.driver} offers {', '.join(cpufreq.available) or 'no governors'}, "
            f"not {wish.governor}: governor left alone"
        )
        notices.append(Notice("no-such-governor", text))
        return {}
    return dict.fromkeys(sorted(cpufreq.governors), wish.governor)


def _energy_preferences(topology: NodeTopology, wish: Tuning, notices: list[Notice]) -> dict[int, str]:
    cpufreq = topology.cpufreq
    if wish.energy_preference is None:
        return {}
    if cpufreq is None or not cpufreq.energy_preferences:
        text = "the host has no energy_performance_preference: left alone"
        notices.append(Notice("no-energy-preference", text))
        return {}
    if wish.energy_preference not in cpufreq.available_energy_preferences:
        text = (
            f"the cpufreq driver {cpufreq.driver} offers {', '.join(cpufreq.available_energy_preferences)}, "
            f"not {wish.energy_preference}: energy preference left alone"
        )
        notices.append(Notice("no-such-energy-preference", text))
        return {}
    return dict.fromkeys(sorted(cpufreq.energy_preferences), wish.energy_preference)


def _idle_states_off(
    topology: NodeTopology, wish: CpuIdle | None, notices: list[Notice]
) -> tuple[IdleStateOff, ...]:
    """Return the states beyond the limit, by each CPU's own states: they differ on hybrid machines."""
    if wish is None:
        return ()
    states = topology.idle_states
    if not states:
        notices.append(Notice("no-cpu-idle", "the kernel manages no sleep states: cpu_idle left alone"))
        return ()
    limits: dict[int, int] = {}
    for state in states:
        if wish.max_latency_us is not None:
            limits.update(dict.fromkeys(state.cpus, wish.max_latency_us))
        elif state.name == wish.deepest:
            limits.update(dict.fromkeys(state.cpus, state.latency_us))
    without = frozenset().union(*(state.cpus for state in states)) - limits.keys()
    if without:
        offered = ", ".join(dict.fromkeys(state.name for state in states if state.name)) or "no names"
        text = f"CPUs {format_cpulist(without)} have no sleep state {wish.deepest} ({offered}): left alone"
        notices.append(Notice("no-such-idle-state", text))
    off: dict[int, set[int]] = {}
    for state in states:
        beyond = {cpu for cpu in state.cpus if cpu in limits and state.latency_us > limits[cpu]}
        off.setdefault(state.index, set()).update(beyond)
    return tuple(IdleStateOff(index, frozenset(cpus)) for index, cpus in sorted(off.items()) if cpus)


def _knobs(topology: NodeTopology, wish: Tuning, notices: list[Notice]) -> dict[str, str]:
    """Return the value of each knob below /sys, by path."""
    values: dict[str, str] = {}
    for knob in KNOBS:
        word = said(wish, knob)
        if word is None or knob.sysctl:
            continue
        path = next((path for path in knob.files if path in topology.kernel_values), None)
        if path is not None:
            values[path] = knob.text(path, word)
        elif word != knob.absent_is and (notice := _lacking(topology, knob)) not in notices:
            notices.append(notice)
    return values


def _lacking(topology: NodeTopology, knob: Knob) -> Notice:
    """Return the notice that the kernel lacks the knob's file, or its whole feature."""
    feature = knob.feature
    if feature and not any(path.startswith(feature.folder) for path in topology.kernel_values):
        return Notice(feature.id, f"{feature.lacking}: left alone")
    above = PurePosixPath(feature.folder).parent if feature else "/"
    name = PurePosixPath(knob.path).relative_to(above)
    return Notice("no-such-switch", f"this kernel has no {name}: left alone")


def _sysctls(
    topology: NodeTopology, wish: Tuning, of_sets: Mapping[str, str], notices: list[Notice]
) -> dict[str, str]:
    chosen = {**of_sets, **wish.sysctls}
    chosen |= {name: knob.text(knob.path, word) for name, (knob, word) in sysctl_knobs(wish).items()}
    # A snapshot lists whole folders of sysctls, so a key missing from a listed folder does not exist. Values
    # that only a set asks for apply only to kernels that show the sysctl.
    listed = {name.rpartition(".")[0] for name in topology.sysctls} - _LISTED_IN_PART
    of_sets_alone = {*of_sets} - {*wish.sysctls} if topology.sysctls else set()
    missing = {
        name
        for name in chosen
        if name not in topology.sysctls and (name in of_sets_alone or name.rpartition(".")[0] in listed)
    }
    for name in sorted(missing):
        nearest = get_close_matches(name, topology.sysctls, n=1, cutoff=0.85)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        notices.append(Notice("no-such-sysctl", f"this kernel has no {name}: left alone{hint}"))
    return {name: chosen[name] for name in sorted(chosen) if name not in missing}


def _decisions(plan: TuningPlan, profile: NodeProfile) -> Iterator[Decision]:
    wish = profile.tuning
    if plan.governors:
        reason = f"{profile.choice('tuning.governor')}, on every online CPU"
        yield Decision("tuning.governor", wish.governor or "", reason)
    if plan.energy_preferences:
        reason = f"{profile.choice('tuning.energy_preference')}, on every online CPU"
        yield Decision("tuning.energy_preference", wish.energy_preference or "", reason)
    if plan.idle_states_off and wish.cpu_idle:
        limit = (
            wish.cpu_idle.deepest
            if wish.cpu_idle.max_latency_us is None
            else f"{wish.cpu_idle.max_latency_us} us"
        )
        off = ", ".join(
            f"state{state.index} off on {format_cpulist(state.cpus)}" for state in plan.idle_states_off
        )
        # The source of a section may be recorded under one of its keys.
        below = (source for source in sorted(profile.sources) if source.startswith("tuning.cpu_idle."))
        reason = f"{profile.choice(next(below, 'tuning.cpu_idle'))}: nothing deeper than {limit}"
        yield Decision("tuning.cpu_idle", off, reason)
    for path, value in knob_values(plan).items():
        knob = KNOB_AT[path]
        which = f"{path.removeprefix(knob.feature.folder)} " if knob.feature and len(knob.files) > 1 else ""
        subject = f"tuning.{knob.key}"
        yield Decision(subject, f"{which}{value}", profile.choice(subject))
    if plan.swap_off:
        reason = f"{profile.choice('tuning.swap')}: memory that pods were given is not taken to disk"
        yield Decision("tuning.swap", "off", reason)


def _sysctl_decisions(plan: TuningPlan, reasons: Mapping[str, str]) -> Iterator[Decision]:
    for name, value in plan.sysctls.items():
        yield Decision(f"tuning.sysctls.{name}", value, reasons[name])
    for name, value in plan.raised_sysctls.items():
        reason = f"{reasons[name]}; raised where the host has less ({RAISED_ONLY[name]})"
        yield Decision(f"tuning.sysctls.{name}", f"{value} or more", reason)


def _sysctl_reason(
    profile: NodeProfile, rows: Mapping[str, tuple[str, Row]], of_sets: Mapping[str, str], name: str
) -> str:
    wish = profile.tuning
    by_knob = sysctl_knobs(wish).get(name)
    if name not in wish.sysctls and not by_knob:
        group, row = rows[name]
        return f"{row.reason}: the set {group} ({row.source})"
    choice = profile.choice(f"tuning.{by_knob[0].key}" if by_knob else f"tuning.sysctls.{name}")
    if risk := wish.unsafe.get(name):
        choice = f"{choice}; the risk: {risk}"
    if name not in rows:
        return choice
    return f"{choice}, over {of_sets[name]} of the set {rows[name][0]}"


def _kept_decisions(kept_values: Mapping[str, str], raised: Mapping[str, str]) -> Iterator[Decision]:
    for name, value in kept_values.items():
        yield Decision(
            f"tuning.sysctls.{name}",
            value,
            f"left as the host has it: the profile asks for {raised[name]}, and this limit is never lowered "
            f"({RAISED_ONLY[name]})",
        )
