"""Kernel settings: what the profile asks for and the host has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numaforge.errors import PlanError
from numaforge.planning.model import Decision, NodePlan, Notice, Reasoned, TuningPlan
from numaforge.planning.sysctls import RAISED_ONLY, has_more, is_raised_only
from numaforge.profile import NodeProfile, Tuning
from numaforge.topology.model import Cpufreq, NodeTopology

# Drivers that refuse another energy preference than performance while their governor is performance
# (drivers/cpufreq/intel_pstate.c, amd-pstate.c).
_PERFORMANCE_IS_STRICT = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")

# Folders of which a snapshot holds some keys only.
_LISTED_IN_PART = {"net.ipv4.conf.all", "net.ipv4.conf.default"}


def plan_tuning(
    topology: NodeTopology, profile: NodeProfile, previous: NodePlan | None = None
) -> Reasoned[TuningPlan]:
    """Return the settings to write; a notice names each one that this host does not have.

    A limit that an earlier plan raised stays planned, whatever the host has by now: to raise does no harm.
    Raises PlanError for a governor and an energy preference that the cpufreq driver refuses together.
    """
    wish = profile.tuning
    notices: list[Notice] = []
    _refuse_contradiction(topology.cpufreq, wish)
    asked = _sysctls(topology, wish, notices)
    ours = {**previous.tuning.sysctls, **previous.tuning.raised_sysctls} if previous else {}
    raised = {name: value for name, value in asked.items() if is_raised_only(name, value)}
    kept = {
        name: topology.sysctls[name]
        for name, value in raised.items()
        if name not in ours and has_more(topology.sysctls.get(name), value)
    }
    plan = TuningPlan(
        governors=_governors(topology, wish, notices),
        energy_preferences=_energy_preferences(topology, wish, notices),
        sysctls={name: value for name, value in asked.items() if name not in raised},
        raised_sysctls={name: value for name, value in raised.items() if name not in kept},
        transparent_hugepages=_transparent_hugepages(topology, wish, notices),
        swap_off=wish.swap == "off",
    )
    decisions = (*_decisions(plan, profile), *_kept_decisions(kept, raised))
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
        notices.append(
            Notice(
                "no-such-governor",
                f"the cpufreq driver {cpufreq.driver} offers "
                f"{', '.join(cpufreq.available) or 'no governors'}, not "
                f"{wish.governor}: governor left alone",
            )
        )
        return {}
    return dict.fromkeys(sorted(cpufreq.governors), wish.governor)


def _energy_preferences(topology: NodeTopology, wish: Tuning, notices: list[Notice]) -> dict[int, str]:
    cpufreq = topology.cpufreq
    if wish.energy_preference is None:
        return {}
    if cpufreq is None or not cpufreq.energy_preferences:
        notices.append(
            Notice("no-energy-preference", "the host has no energy_performance_preference: left alone")
        )
        return {}
    if wish.energy_preference not in cpufreq.available_energy_preferences:
        notices.append(
            Notice(
                "no-such-energy-preference",
                f"the cpufreq driver {cpufreq.driver} offers "
                f"{', '.join(cpufreq.available_energy_preferences)}, not "
                f"{wish.energy_preference}: energy preference left alone",
            )
        )
        return {}
    return dict.fromkeys(sorted(cpufreq.energy_preferences), wish.energy_preference)


def _sysctls(topology: NodeTopology, wish: Tuning, notices: list[Notice]) -> dict[str, str]:
    asked = dict(wish.sysctls)
    if wish.numa_balancing is not None:
        asked["kernel.numa_balancing"] = str(int(wish.numa_balancing))
    # A snapshot lists folders of sysctls whole, so a key that is missing beside others does not exist.
    listed = {name.rpartition(".")[0] for name in topology.sysctls} - _LISTED_IN_PART
    missing = {name for name in asked if name not in topology.sysctls and name.rpartition(".")[0] in listed}
    notices.extend(
        Notice("no-such-sysctl", f"this kernel has no {name}: left alone") for name in sorted(missing)
    )
    return {name: asked[name] for name in sorted(asked) if name not in missing}


def _transparent_hugepages(topology: NodeTopology, wish: Tuning, notices: list[Notice]) -> dict[str, str]:
    if wish.transparent_hugepages is None:
        return {}
    if not topology.transparent_hugepages:
        notices.append(
            Notice("no-transparent-hugepages", "the kernel has no transparent huge pages: left alone")
        )
        return {}
    asked = wish.transparent_hugepages
    switches = {"defrag": asked.defrag, "enabled": asked.enabled}
    return {name: value for name, value in switches.items() if value is not None}


def _decisions(plan: TuningPlan, profile: NodeProfile) -> tuple[Decision, ...]:
    wish = profile.tuning
    decisions = []
    if plan.governors:
        reason = f"{profile.choice('tuning.governor')}, on every online CPU"
        decisions.append(Decision("tuning.governor", wish.governor or "", reason))
    if plan.energy_preferences:
        reason = f"{profile.choice('tuning.energy_preference')}, on every online CPU"
        decisions.append(Decision("tuning.energy_preference", wish.energy_preference or "", reason))
    decisions += [
        Decision(f"tuning.sysctls.{name}", value, _sysctl_choice(profile, name))
        for name, value in plan.sysctls.items()
    ]
    decisions += [
        Decision(
            f"tuning.sysctls.{name}",
            f"{value} or more",
            f"{_sysctl_choice(profile, name)}; raised where the host has less ({RAISED_ONLY[name]})",
        )
        for name, value in plan.raised_sysctls.items()
    ]
    decisions += [
        Decision(
            f"tuning.transparent_hugepages.{name}",
            value,
            profile.choice(f"tuning.transparent_hugepages.{name}"),
        )
        for name, value in plan.transparent_hugepages.items()
    ]
    if plan.swap_off:
        reason = f"{profile.choice('tuning.swap')}: memory that pods were given is not taken to disk"
        decisions.append(Decision("tuning.swap", "off", reason))
    return tuple(decisions)


def _sysctl_choice(profile: NodeProfile, name: str) -> str:
    by_switch = name == "kernel.numa_balancing" and profile.tuning.numa_balancing is not None
    return profile.choice("tuning.numa_balancing" if by_switch else f"tuning.sysctls.{name}")


def _kept_decisions(kept: Mapping[str, str], raised: Mapping[str, str]) -> Iterator[Decision]:
    for name, held in kept.items():
        yield Decision(
            f"tuning.sysctls.{name}",
            held,
            f"left as the host has it: the profile asks for {raised[name]}, and this limit is never lowered "
            f"({RAISED_ONLY[name]})",
        )
