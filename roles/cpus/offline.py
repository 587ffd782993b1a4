"""Which CPUs are taken offline, and the machine with and without them.

Each CPU goes offline by its own switch, for SMT as well: undoing the kernel's SMT control or `nosmt` would
bring every CPU online, even one that was offline before. No boot is needed: the kubelet is stopped while the
CPUs change, and never starts with a state file for other CPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from numaforge.kubelet.admission.machine import cores_seen, packages_counted
from numaforge.lib.codec import CpuSet
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import Core, Cpufreq, IdleState, L3Cache, NodeTopology, Package

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


@dataclass(frozen=True)
class OfflinePlan:
    """The CPUs planned offline; `taken` are those that only this plan takes offline.

    `cores` and `caches` are those with taken CPUs, as they were before: the kernel does not show them for an
    offline CPU. `kubelet_cores` and `kubelet_packages` are all that the kernel's ids give, where those differ
    from its sibling masks.
    """

    cpus: CpuSet = frozenset()
    taken: CpuSet = frozenset()
    cores: tuple[Core, ...] = ()
    caches: tuple[L3Cache, ...] = ()
    kubelet_cores: tuple[Core, ...] = ()
    kubelet_packages: tuple[Package, ...] = ()


_SMT, _OFFLINE = "cpus.smt", "cpus.offline"
_BOOT_CPU = 0

Group = TypeVar("Group", Core, L3Cache, Package, IdleState)


def plan_offline(machine: NodeTopology, profile: NodeProfile, earlier: OfflinePlan) -> Reasoned[OfflinePlan]:
    """Return which CPUs go offline, starting from the machine without what an `earlier` plan took offline.

    Raises PlanError for CPUs that do not exist or that the kernel keeps online, for a NUMA node with devices
    that would lose all its CPUs, and under cgroup version 1.
    """
    machine = as_before(machine, earlier)
    smt, named_cpus = profile.cpus.smt == "off", parse_cpulist(profile.cpus.offline or "")
    siblings = frozenset(cpu for core in machine.cores for cpu in core.cpus - {min(core.cpus)} if smt)
    no_smt = Notice(
        "no-smt",
        f"no core has more than one online thread (SMT is {machine.smt or 'not told of'}): nothing to take "
        "offline",
    )
    cpus = siblings | named_cpus
    new_offline = cpus & machine.online
    if cpus:
        _refuse_absent(machine, named_cpus)
        _refuse_what_stays(machine, named_cpus, _OFFLINE)
        _refuse_what_stays(machine, siblings, _SMT)
        _refuse_starved(machine, new_offline)
        _refuse_old_cgroups(machine, _SMT if siblings else _OFFLINE)
    plan = OfflinePlan(
        cpus,
        new_offline,
        _holding(machine.cores, new_offline),
        _holding(machine.l3_caches, new_offline),
        machine.kubelet_cores or () if new_offline else (),
        machine.kubelet_packages or () if new_offline else (),
    )
    return Reasoned(
        plan, tuple(_decisions(profile, siblings, named_cpus)), (no_smt,) * (smt and not siblings)
    )


def as_before(machine: NodeTopology, earlier: OfflinePlan) -> NodeTopology:
    """Return the machine with the CPUs restored that an earlier plan took offline."""
    back = earlier.taken & machine.offline
    if not back:
        return machine
    online = machine.online | back
    cores = _with(machine.cores, earlier.cores, online)
    numa = {node.id: node.cpus for node in machine.numa_nodes}
    packages = {package.id: package.cpus for package in machine.packages}
    for core in cores:
        packages[core.package] = packages.get(core.package, frozenset()) | core.cpus
        if core.numa_node is not None:
            numa[core.numa_node] = numa.get(core.numa_node, frozenset()) | core.cpus
    alike = {cpu: _closest_online(machine, earlier, cpu) for cpu in sorted(back)}
    return replace(
        machine,
        cpus=replace(machine.cpus, online=online, offline=machine.offline - back),
        cores=cores,
        packages=_ordered(Package(number, cpus) for number, cpus in packages.items()),
        numa_nodes=tuple(replace(node, cpus=numa[node.id]) for node in machine.numa_nodes),
        kubelet_cores=_with(cores_seen(machine), earlier.kubelet_cores, online)
        if earlier.kubelet_cores
        else None,
        kubelet_packages=_with(packages_counted(machine), earlier.kubelet_packages, online)
        if earlier.kubelet_packages
        else None,
        l3_caches=_with(machine.l3_caches, earlier.caches, online),
        cpufreq=machine.cpufreq and _scaled(machine.cpufreq, alike),
        idle_states=machine.idle_states
        and tuple(
            replace(state, cpus=state.cpus | {cpu for cpu, closest in alike.items() if closest in state.cpus})
            for state in machine.idle_states
        ),
    )


def without(machine: NodeTopology, offline: OfflinePlan) -> NodeTopology:
    """Return the machine as it is once these CPUs are offline."""
    new_offline = offline.cpus & machine.online
    if not new_offline:
        return machine
    online = machine.online - new_offline
    offline_cpus, isolated = machine.offline | new_offline, machine.isolated - new_offline
    return replace(
        machine,
        cpus=replace(machine.cpus, online=online, offline=offline_cpus, isolated=isolated),
        cores=_still_online(machine.cores, online),
        packages=_still_online(machine.packages, online),
        numa_nodes=tuple(replace(node, cpus=node.cpus & online) for node in machine.numa_nodes),
        kubelet_cores=None if machine.kubelet_cores is None else _still_online(machine.kubelet_cores, online),
        kubelet_packages=None
        if machine.kubelet_packages is None
        else _still_online(machine.kubelet_packages, online),
        l3_caches=_still_online(machine.l3_caches, online),
        cpufreq=machine.cpufreq
        and replace(
            machine.cpufreq,
            governors=_of(machine.cpufreq.governors, online),
            energy_preferences=_of(machine.cpufreq.energy_preferences, online),
        ),
        idle_states=machine.idle_states and _still_online(machine.idle_states, online),
    )


def taken_offline(machine: NodeTopology, offline: OfflinePlan, earlier: OfflinePlan) -> NodeTopology:
    """Return a machine with these CPUs offline, and those back that an `earlier` plan took."""
    return without(as_before(machine, earlier), offline)


def _holding(groups: Iterable[Group], cpus: CpuSet) -> tuple[Group, ...]:
    return tuple(group for group in groups if group.cpus & cpus)


def _still_online(groups: Iterable[Group], cpus: CpuSet) -> tuple[Group, ...]:
    return tuple(replace(group, cpus=group.cpus & cpus) for group in groups if group.cpus & cpus)


def _with(current: Iterable[Group], earlier: Iterable[Group], online: CpuSet) -> tuple[Group, ...]:
    """Return the groups, with previous ones restored where they have shrunk."""
    restored = _still_online(earlier, online)
    covered: CpuSet = frozenset().union(*(group.cpus for group in restored))
    return _ordered(chain(restored, (group for group in current if not group.cpus & covered)))


def _ordered(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: min(group.cpus)))


def _closest_online(machine: NodeTopology, earlier: OfflinePlan, cpu: int) -> int:
    """Return an online CPU of the same core, else of the same cache, else the first online CPU."""
    groups = chain((core.cpus for core in earlier.cores), (cache.cpus for cache in earlier.caches))
    return min(
        next(
            (online_left for cpus in groups if cpu in cpus and (online_left := cpus & machine.online)),
            machine.online,
        )
    )


def _scaled(cpufreq: Cpufreq, alike: dict[int, int]) -> Cpufreq:
    def more(values: Mapping[int, str]) -> dict[int, str]:
        back = {cpu: values[closest] for cpu, closest in alike.items() if closest in values}
        return dict(sorted({**values, **back}.items()))

    governors, preferences = more(cpufreq.governors), more(cpufreq.energy_preferences)
    return replace(cpufreq, governors=governors, energy_preferences=preferences)


def _of(values: Mapping[int, str], cpus: CpuSet) -> dict[int, str]:
    return {cpu: value for cpu, value in values.items() if cpu in cpus}


def _refuse_absent(machine: NodeTopology, named_cpus: CpuSet) -> None:
    present = machine.online | machine.offline
    if absent := named_cpus - present:
        raise PlanError(
            f"{format_cpulist(named_cpus)!r} names CPUs that this machine does not have: "
            f"{format_cpulist(absent)}",
            where=_OFFLINE,
            remedy=f"choose among the CPUs {format_cpulist(present - {_BOOT_CPU})}",
        )


def _refuse_what_stays(machine: NodeTopology, cpus: CpuSet, field: str) -> None:
    if _BOOT_CPU in cpus:
        raise PlanError(
            f"CPU {_BOOT_CPU} stays online: the kernel starts on it, and firmware may need it",
            where=field,
            remedy=f'leave it out: "{format_cpulist(cpus - {_BOOT_CPU})}"'
            if cpus - {_BOOT_CPU}
            else f"leave {field} out",
        )
    fixed = cpus & machine.online - machine.switchable if machine.switchable is not None else frozenset()
    if fixed:
        rest = cpus - fixed
        raise PlanError(
            f"this kernel keeps CPUs {format_cpulist(fixed)} online (they have no switch below "
            "/sys/devices/system/cpu)",
            where=field,
            remedy=f'leave them out: "{format_cpulist(rest)}"'
            if rest and field == _OFFLINE
            else f"leave {field} out",
        )


def _refuse_starved(machine: NodeTopology, new_offline: CpuSet) -> None:
    devices = {gpu.numa_node for gpu in machine.gpus} | {one.numa_node for one in machine.accelerators}
    for node in machine.numa_nodes:
        if node.cpus and node.cpus <= new_offline and node.id in devices:
            raise PlanError(
                f"all CPUs of NUMA node {node.id} ({format_cpulist(node.cpus)}) would be offline, but it has "
                "GPUs or accelerators, whose pods need CPUs there",
                where=_OFFLINE,
                remedy="leave CPUs of that NUMA node online",
            )


def _refuse_old_cgroups(machine: NodeTopology, field: str) -> None:
    if machine.cgroup_version == 1:
        raise PlanError(
            "this host has cgroup version 1, in which a CPU that was offline does not come back to the "
            "cpusets of what runs",
            where=field,
            remedy=f"boot with cgroup version 2, or leave {field} out",
        )


def _decisions(profile: NodeProfile, siblings: CpuSet, named_cpus: CpuSet) -> Iterator[Decision]:
    if siblings:
        reason = f"{profile.choice(_SMT)}: of each core one thread stays, CPUs {format_cpulist(siblings)} go"
        yield Decision(_SMT, "off", reason)
    if named_cpus:
        yield Decision(_OFFLINE, format_cpulist(named_cpus), profile.choice(_OFFLINE))
