"""Memory kept from pods: the three reservations, and their exact split over the NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from numaforge.kubelet.config.reservations import ReservationError, parse_thresholds
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.lib.codec import ByName, CpuSet
from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.quantity import Quantity, format_bytes, parse_bytes, parse_quantity
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.cpus.default_amounts import DEFAULT_MAX_PODS, default_memory
from numaforge.roles.hugepages.plan import (
    PagesBySize,
    WantedPages,
    describe_pools,
    pool_bytes,
    pool_places,
    pools_after,
)
from numaforge.roles.kubelet.existing import ExistingSettings, Setting
from numaforge.roles.memory.numa_notices import disagreeing_totals

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.cpus.plan import CpuPlan
    from numaforge.roles.memory.section import Memory


@dataclass(frozen=True)
class NumaNodePlan:
    """One NUMA node after planning; memory in bytes, `reserved_memory_bytes` its share of reservedMemory."""

    id: int
    cpus: CpuSet
    reserved_cpus: CpuSet
    memory_bytes: int
    reserved_memory_bytes: int
    allocatable_memory_bytes: int  # ordinary pages for pods, as the static memory manager counts them


@dataclass(frozen=True)
class MemoryPlan:
    """Memory kept from pods, in bytes; the shares of the NUMA nodes add up to the three reservations.

    `eviction_hard` is the complete map, with memory.available as an amount even where it was a percentage.
    """

    capacity_bytes: int
    kube_reserved_bytes: int
    system_reserved_bytes: int
    eviction_hard_bytes: int
    eviction_hard: ByName[str] = field(default_factory=dict)
    numa_nodes: tuple[NumaNodePlan, ...] = ()

    @property
    def reserved_bytes(self) -> int:
        return self.kube_reserved_bytes + self.system_reserved_bytes + self.eviction_hard_bytes


MIB = 2**20

_MEMORY_SIGNAL = "memory.available"

# A reboot moves MemTotal and the NUMA nodes' parts of it by some 60 MB, because the kernel places itself at
# random. A value computed from them keeps the earlier plan's amount within this fraction of it, so that a
# reboot alone does not change the kubelet's settings.
_STEADY_PART = 100
_A_BOOT_MOVES = 128 * MIB
"""The most memory that a boot moves to another NUMA node: the kernel and its tables."""


class Room(NamedTuple):
    """A NUMA node that can hold part of the reservation; huge pages leave `free_bytes` of its memory."""

    node: int
    memory_bytes: int
    free_bytes: int


def _reservations(
    topology: NodeTopology,
    profile: NodeProfile,
    existing: ExistingSettings,
    pools: WantedPages,
    previous: NodePlan | None,
) -> Reasoned[MemoryPlan]:
    """Settle kubeReserved, systemReserved and the hard eviction threshold for memory.

    Where neither the profile nor the kubelet's own configuration names one of the first two, both grow with
    the memory that huge pages leave, and with the number of pods.
    Raises PlanError where the profile contradicts the kubelet's configuration, where the reservations are not
    less than the machine's memory, or where the profile reserves memory on a machine whose memory is unknown.
    """
    capacity = topology.memory_bytes
    if not capacity:
        return _nothing_known(profile)
    eviction, eviction_reason = _eviction_map(profile, existing)
    eviction_threshold = eviction.get(_MEMORY_SIGNAL)
    threshold = eviction_bytes(eviction_threshold, capacity)
    earlier = previous.memory.eviction_hard_bytes if previous else threshold
    if eviction_threshold and eviction_threshold.endswith("%") and _near(earlier, threshold):
        threshold = earlier
    if threshold:
        eviction[_MEMORY_SIGNAL] = format_bytes(threshold)
    usable = max(0, _ordinary_bytes(topology, pools) - threshold)
    defaults = _defaults(profile, existing, previous, usable)
    kube, kube_decision = _amount("kube", profile.memory.kube_reserved, profile, existing, defaults)
    system, system_decision = _amount("system", profile.memory.system_reserved, profile, existing, defaults)
    plan = MemoryPlan(capacity, kube, system, threshold, dict(sorted(eviction.items())))
    if plan.reserved_bytes >= capacity:
        raise PlanError(
            f"kube_reserved {format_bytes(kube)} + system_reserved {format_bytes(system)} + eviction "
            f"threshold {format_bytes(threshold)} = {format_bytes(plan.reserved_bytes)}, but the machine has "
            f"{format_bytes(capacity)} of memory",
            where="memory",
            remedy=_take_back(plan.reserved_bytes - capacity + MIB, plan, profile),
        )
    eviction_decision = Decision("memory.eviction_hard", format_bytes(threshold), eviction_reason)
    return Reasoned(
        plan, (kube_decision, system_decision, eviction_decision), (*_without_unit(profile.memory),)
    )


def _without_unit(wish: Memory) -> Iterator[Notice]:
    """Yield a notice for each amount that was probably meant in a larger unit than bytes."""
    for key, amount in (("kube_reserved", wish.kube_reserved), ("system_reserved", wish.system_reserved)):
        if amount is not None and 0 < amount < MIB:
            yield Notice(
                "reservation-without-unit",
                f"memory.{key}: {amount} bytes are less than any program takes, and without a unit an amount "
                "is in bytes: write 2048Mi, or 2Gi",
            )


def _nothing_known(profile: NodeProfile) -> Reasoned[MemoryPlan]:
    wish = profile.memory
    if wish.kube_reserved is not None or wish.system_reserved is not None or wish.eviction_hard:
        raise PlanError(
            "the snapshot has no total memory, so none can be reserved",
            where="memory",
            remedy="capture the snapshot again, with /proc/meminfo, or set memory: null",
        )
    notice = Notice("memory-unknown", "the snapshot has no total memory: none is planned")
    return Reasoned(MemoryPlan(0, 0, 0, 0), notices=(notice,))


def holds_reservation(topology: NodeTopology) -> bool:
    """Whether any NUMA node is known to have both CPUs and memory."""
    return any(node.cpus and node.memory_bytes for node in topology.numa_nodes)


def eviction_bytes(threshold: str | None, capacity: int) -> int:
    """Return a memory.available threshold in bytes, as the kubelet computes it from its capacity.

    Raises PlanError for a threshold that the kubelet rejects.
    """
    if threshold is None:
        return 0
    try:
        parsed = parse_thresholds({_MEMORY_SIGNAL: threshold}, LATEST_MINOR)
    except ReservationError as error:
        raise PlanError(
            str(error),
            where=f"evictionHard.{_MEMORY_SIGNAL}",
            remedy="write an amount such as 500Mi, or a share such as 5%",
        ) from error
    if _MEMORY_SIGNAL not in parsed:
        return 0
    return parsed[_MEMORY_SIGNAL].of(Quantity.of_bytes(capacity)).ceiling()


def split_reservation(total: int, rooms: Sequence[Room], mode: str) -> dict[int, int]:
    """Divide `total` bytes over NUMA nodes, in whole MiB with the remainder on a node that can hold it.

    `mode` is "proportional" (to the nodes' memory) or "even". What does not fit on a node moves to the
    others. The shares add up to `total`, for which the rooms must suffice.
    """
    rooms = sorted(rooms, key=lambda room: room.node)
    free = {room.node: room.free_bytes // MIB for room in rooms}
    weights = {room.node: room.memory_bytes if mode == "proportional" else 1 for room in rooms}
    whole_mib = min(total // MIB, sum(free.values()))
    shares = {node: count * MIB for node, count in _apportion_within(whole_mib, weights, free).items()}
    rest = total - whole_mib * MIB
    spare = {room.node: room.free_bytes - shares[room.node] for room in rooms}
    holders = [node for node in spare if spare[node] >= rest][:1] or list(spare)
    for node in holders:
        part = min(rest, spare[node])
        shares[node] += part
        rest -= part
    return shares


def _numa_nodes(
    topology: NodeTopology,
    profile: NodeProfile,
    existing: ExistingSettings,
    hugepages: WantedPages,
    reserved: CpuSet,
    previous: NodePlan | None,
    reservations: MemoryPlan,
) -> Reasoned[tuple[NumaNodePlan, ...]]:
    """Split the reservation over the NUMA nodes that have CPUs and memory, beside their huge pages.

    Raises PlanError, with the arithmetic, where it does not fit and the memory manager needs the split.
    """
    nodes = sorted(topology.numa_nodes, key=lambda node: node.id)
    pools = {node.id: pool_bytes(pools_after(node, hugepages.get(node.id, {}))) for node in nodes}
    rooms = [
        Room(node.id, node.memory_bytes, max(0, node.memory_bytes - pools[node.id]))
        for node in nodes
        if node.cpus and node.memory_bytes
    ]
    shares: dict[int, int] = {}
    decisions: tuple[Decision, ...] = ()
    notices: tuple[Notice, ...] = ()
    lacking = reservations.reserved_bytes - sum(room.free_bytes for room in rooms)
    if rooms and lacking <= 0:
        shares, decisions, notices = _shares(profile, existing, previous, rooms, reservations.reserved_bytes)
    elif not nodes:
        _refuse_no_memory_left(topology, profile, reservations, hugepages.get(None, {}))
    elif rooms:
        notices = (_too_little_room(topology, profile, existing, hugepages, rooms, reservations),)
    return Reasoned(
        tuple(
            NumaNodePlan(
                id=node.id,
                cpus=node.cpus,
                reserved_cpus=node.cpus & reserved,
                memory_bytes=node.memory_bytes or 0,
                reserved_memory_bytes=shares.get(node.id, 0),
                allocatable_memory_bytes=max(
                    0, (node.memory_bytes or 0) - pools[node.id] - shares.get(node.id, 0)
                ),
            )
            for node in nodes
        ),
        decisions,
        notices,
    )


def existing_bytes(setting: Setting, subject: str) -> int:
    """Return an existing setting in bytes. Raises PlanError unless it is a whole number of bytes."""
    try:
        quantity = parse_quantity(setting.value)
    except NumaforgeError as error:
        raise PlanError(error.message, where=f"{setting.place}: {subject}", remedy=error.remedy) from error
    if quantity.denominator != 1 or quantity < 0:
        raise PlanError(
            f"{setting.value!r} is not a whole, positive number of bytes",
            where=f"{setting.place}: {subject}",
            remedy="write for example 512Mi",
        )
    return int(quantity)


def max_pods(existing: ExistingSettings) -> int:
    """Return how many pods the kubelet admits."""
    pods_limit = existing.effective.get("maxPods")
    return pods_limit if isinstance(pods_limit, int) and pods_limit > 0 else DEFAULT_MAX_PODS


def _defaults(
    profile: NodeProfile, existing: ExistingSettings, previous: NodePlan | None, usable: int
) -> Mapping[str, tuple[int, str]]:
    """Return the default amounts and reasons of "kube" and "system"; empty where an admin set one of them."""
    wish = profile.memory
    # An existing reservedMemory adds up to the present reservations.
    is_set = existing.get("reservedMemory") or any(
        existing.get(f"{owner}Reserved", "memory") or existing.get(f"{owner}Reserved")
        for owner in ("kube", "system")
    )
    if is_set or wish.kube_reserved is not None or wish.system_reserved is not None:
        return {}
    amounts = default_memory(usable, max_pods(existing))
    earlier = previous.memory if previous else MemoryPlan(0, amounts.kube, amounts.system, 0)
    return {
        "kube": (_steadily(earlier.kube_reserved_bytes, amounts.kube), amounts.kube_reason),
        "system": (_steadily(earlier.system_reserved_bytes, amounts.system), amounts.system_reason),
    }


def _steadily(earlier: int, current: int) -> int:
    return earlier if _near(earlier, current) else current


def _ordinary_bytes(topology: NodeTopology, hugepages: WantedPages) -> int:
    """Return the bytes that huge pages leave on NUMA nodes with CPUs, or on a machine without such nodes."""
    if not holds_reservation(topology):
        pools = pool_bytes(
            {size: pool.total for size, pool in topology.hugepages.items()} | {**hugepages.get(None, {})}
        )
        return max(0, (topology.memory_bytes or 0) - pools)
    return sum(
        max(0, (node.memory_bytes or 0) - pool_bytes(pools_after(node, hugepages.get(node.id, {}))))
        for node in topology.numa_nodes
        if node.cpus
    )


def _amount(
    owner: str,
    amount_wish: int | None,
    profile: NodeProfile,
    existing: ExistingSettings,
    defaults: Mapping[str, tuple[int, str]],
) -> tuple[int, Decision]:
    name, subject = f"{owner}Reserved", f"memory.{owner}_reserved"
    kept_setting = existing.settle(
        (name, "memory"),
        amount_wish,
        subject=subject,
        same=lambda value: existing_bytes(Setting(value, "kubelet"), f"{name}.memory") == amount_wish,
        shown=None if amount_wish is None else format_bytes(amount_wish),
    )
    if kept_setting:
        amount = existing_bytes(kept_setting, f"{name}.memory")
        return amount, Decision(subject, format_bytes(amount), f"kept as {kept_setting.place} has it")
    if amount_wish is None and owner in defaults:
        amount, reason = defaults[owner]
        return amount, Decision(subject, format_bytes(amount), f"unset in the profile, so {reason}")
    if amount_wish is None:
        return 0, Decision(subject, "0", "neither the profile nor the kubelet's configuration reserves any")
    return amount_wish, Decision(
        subject, format_bytes(amount_wish), profile.choice(subject, "the profile's amount")
    )


def _eviction_map(profile: NodeProfile, existing: ExistingSettings) -> tuple[dict[str, str], str]:
    """Return the complete evictionHard map, and the reason for its memory.available."""
    complete = dict(existing.effective.get("evictionHard") or {})
    for signal, threshold in sorted(profile.memory.eviction_hard.items()):
        existing.settle(
            ("evictionHard", signal),
            threshold,
            subject=f"memory.eviction_hard.{signal}",
            same=partial(_same_threshold, threshold),
        )
        complete[signal] = threshold
    return complete, _eviction_reason(profile, existing, complete.get(_MEMORY_SIGNAL))


def _eviction_reason(profile: NodeProfile, existing: ExistingSettings, threshold: str | None) -> str:
    setting = existing.get("evictionHard", _MEMORY_SIGNAL)
    if threshold is None:
        source_name = existing.eviction_map or "the kubelet's configuration"
        return f"{source_name} has an evictionHard without memory.available"
    if _MEMORY_SIGNAL in profile.memory.eviction_hard:
        source = profile.choice(f"memory.eviction_hard.{_MEMORY_SIGNAL}", "the profile's threshold")
    else:
        source = f"kept as {setting.place} has it" if setting else "the kubelet's default"
    if threshold.endswith("%"):
        return (
            f"{source}, {threshold} of memory, written as an amount so that reservedMemory still adds up "
            "when a reboot moves MemTotal"
        )
    return source


def _same_threshold(threshold: str, value: Any) -> bool:
    if str(value).endswith("%") or threshold.endswith("%"):
        return str(value) == threshold
    return existing_bytes(Setting(value, "kubelet"), "evictionHard") == parse_bytes(threshold)


def _shares(
    profile: NodeProfile,
    existing: ExistingSettings,
    previous: NodePlan | None,
    rooms: Sequence[Room],
    total: int,
) -> tuple[dict[int, int], tuple[Decision, ...], tuple[Notice, ...]]:
    subject = "memory.split"
    setting = existing.get("reservedMemory")
    mode = profile.memory.split or "proportional"
    shares = _steady_shares(previous, rooms, split_reservation(total, rooms, mode))
    if setting is not None and profile.memory.split is None:
        existing_shares = _existing_shares(setting, rooms, total)
        if existing_shares is not None:
            return (
                existing_shares,
                (Decision(subject, _describe(existing_shares), f"kept as {setting.place} has it"),),
                (),
            )
        if setting.from_flag or profile.kubelet.on_conflict != "override":
            raise PlanError(
                f"reservedMemory in {setting.place} does not add up to {format_bytes(total)} on NUMA nodes "
                "that can hold it, which is what the kubelet wants to see",
                where="memory",
                remedy=f"remove it there, or make it: {_describe(shares)}",
            )
    existing.settle(
        ("reservedMemory",),
        shares if profile.memory.split else None,
        subject=subject,
        same=lambda value: _existing_shares(Setting(value, "kubelet"), rooms, total) == shares,
        shown=f"reservedMemory of {format_bytes(total)} ({_describe(shares)})",
    )
    ways = {"proportional": "in proportion to the NUMA nodes' memory", "even": "in equal parts"}
    reason = f"{format_bytes(total)} {ways[mode]}, in whole MiB, to the byte what the kubelet adds up itself"
    ideal = split_reservation(
        total, [Room(r.node, r.memory_bytes, max(total, r.free_bytes)) for r in rooms], mode
    )
    moved = [node for node in shares if shares[node] < ideal[node] and not _near(shares[node], ideal[node])]
    notices = tuple(
        Notice(
            "reservation-moved",
            f"NUMA node {node} holds {format_bytes(shares[node])} of the memory reservation instead of "
            f"{format_bytes(ideal[node])}, because huge pages and memory leave no more room there",
        )
        for node in moved
    )
    return shares, (Decision(subject, _describe(shares), reason),), notices


def _steady_shares(
    previous: NodePlan | None, rooms: Sequence[Room], shares: dict[int, int]
) -> dict[int, int]:
    """Return the earlier shares where they have the same sum, fit, and nearly equal the new ones.

    Nearly equal includes a difference caused by the memory that a boot moves to another NUMA node, which may
    be a large part of a small node.
    """
    if previous is None:
        return shares
    moved = sum(shares.values()) * _A_BOOT_MOVES // sum(room.memory_bytes for room in rooms)
    earlier = {
        node.id: node.reserved_memory_bytes for node in previous.memory.numa_nodes if node.id in shares
    }
    stands = (
        earlier.keys() == shares.keys()
        and sum(earlier.values()) == sum(shares.values())
        and all(earlier[room.node] <= room.free_bytes for room in rooms)
        and all(_near(earlier[node], shares[node], moved) for node in shares)
    )
    return earlier if stands else shares


def _near(earlier: int, current: int, at_least: int = 0) -> bool:
    return abs(earlier - current) <= max(current // _STEADY_PART, 2 * MIB, at_least)


def _describe(shares: Mapping[int, int]) -> str:
    return ", ".join(f"NUMA node {node}: {format_bytes(share)}" for node, share in sorted(shares.items()))


def _existing_shares(setting: Setting, rooms: Sequence[Room], total: int) -> dict[int, int] | None:
    """Return an existing reservedMemory by node, or None where it does not add up or does not fit."""
    shares = {room.node: 0 for room in rooms}
    free = {room.node: room.free_bytes for room in rooms}
    for entry in setting.value if isinstance(setting.value, list) else [None]:
        limits = entry.get("limits") if isinstance(entry, Mapping) else None
        node = entry.get("numaNode") if isinstance(entry, Mapping) else None
        if not isinstance(limits, Mapping) or set(limits) != {"memory"} or node not in shares:
            return None
        shares[node] += existing_bytes(Setting(limits["memory"], setting.place), "reservedMemory")
    fits = all(shares[node] <= free[node] for node in shares)
    return shares if fits and sum(shares.values()) == total else None


def _too_little_room(
    topology: NodeTopology,
    profile: NodeProfile,
    existing: ExistingSettings,
    hugepages: WantedPages,
    rooms: Sequence[Room],
    reservations: MemoryPlan,
) -> Notice:
    """Return a notice that the reservation does not fit on the NUMA nodes.

    Raises PlanError where the memory manager's policy is Static, the only one that reads the split, and where
    the machine as a whole has no memory left for pods.
    """
    total = reservations.reserved_bytes
    free = sum(room.free_bytes for room in rooms)
    by_id = {node.id: node for node in topology.numa_nodes}
    lines = "".join(
        f"\n  NUMA node {room.node}: {format_bytes(room.memory_bytes)} of memory - "
        f"{describe_pools(by_id[room.node], hugepages.get(room.node, {}))} = {format_bytes(room.free_bytes)}"
        for room in rooms
    )
    if (disagree := disagreeing_totals(topology)) is not None:
        lines += f"\n  {disagree}: a hypervisor that adds memory later may not have added it yet"
    sentence = (
        f"{format_bytes(total)} of memory would be reserved, but only {format_bytes(free)} are left on the "
        "NUMA nodes that have CPUs"
    )
    pools = sum(pool_bytes(pools_after(node, hugepages.get(node.id, {}))) for node in topology.numa_nodes)
    setting = existing.get("memoryManagerPolicy")
    policy = profile.kubelet.memory_manager_policy or (setting and setting.value)
    lacking = total + pools + MIB - reservations.capacity_bytes
    if policy == "Static" or lacking > 0:
        pages = any(count for node_pages in hugepages.values() for count in node_pages.values())
        without = ", or set kubelet.memory_manager_policy: None" if lacking <= 0 else ""
        raise PlanError(
            f"{sentence}:{lines}",
            where="memory",
            remedy=_take_back(max(total - free, lacking), reservations, profile, pages=pages) + without,
        )
    return Notice(
        "reservation-not-split",
        f"{sentence}: it is not divided among them. The memory manager's policy None needs no split, Static "
        "would not start",
    )


def _refuse_no_memory_left(
    topology: NodeTopology, profile: NodeProfile, reservations: MemoryPlan, pages: PagesBySize
) -> None:
    """Refuse huge pages and reservations that use up a machine whose kernel shows no NUMA nodes."""
    (machine,) = pool_places(topology).values()
    pools, memory = pool_bytes(pools_after(machine, pages)), machine.memory_bytes
    if not pools or memory is None:
        return
    lacking = reservations.reserved_bytes + pools + MIB - memory
    if lacking > 0:
        raise PlanError(
            f"{format_bytes(reservations.reserved_bytes)} of memory would be reserved beside "
            f"{describe_pools(machine, pages)}, but the machine has {format_bytes(memory)}",
            where="memory",
            remedy=_take_back(lacking, reservations, profile, pages=any(pages.values())),
        )


def _take_back(count: int, reservations: MemoryPlan, profile: NodeProfile, *, pages: bool = False) -> str:
    """Return the remedy: the profile's fields from which at least `count` bytes can be taken."""
    memory, wish = reservations, profile.memory
    amounts = {
        "memory.kube_reserved": wish.kube_reserved,
        "memory.system_reserved": wish.system_reserved,
        f"memory.eviction_hard.{_MEMORY_SIGNAL}": memory.eviction_hard_bytes,
        "hugepages": pages,
    }
    fields = [field for field, amount in amounts.items() if amount]
    alternative = "" if wish.kube_reserved or wish.system_reserved else " or the kubelet's own reservations"
    return f"take {format_bytes(-(-count // MIB) * MIB)} from {', '.join(fields)}{alternative}"


def _apportion_within(count: int, weights: Mapping[int, int], limits: Mapping[int, int]) -> dict[int, int]:
    """Apportion `count` by weight within the limits, which together allow `count`."""
    fixed: dict[int, int] = {}
    while True:
        open_weights = {node: weight for node, weight in weights.items() if node not in fixed}
        shares = _apportion(count - sum(fixed.values()), open_weights)
        full = {node: limits[node] for node, share in shares.items() if share > limits[node]}
        if not full:
            return {**fixed, **shares}
        fixed.update(full)


def _apportion(count: int, weights: Mapping[int, int]) -> dict[int, int]:
    """Divide `count` by the largest-remainder method; ties go to the lowest node."""
    total = sum(weights.values())
    shares = {node: count * weight // total for node, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda node: (-(count * weights[node] % total), node))
    for node in by_remainder[: count - sum(shares.values())]:
        shares[node] += 1
    return shares


def plan_memory(
    machine: NodeTopology,
    profile: NodeProfile,
    existing: ExistingSettings,
    cpus: CpuPlan,
    pools: WantedPages,
    earlier: NodePlan | None,
) -> Reasoned[MemoryPlan]:
    """Return the reservations and their split; all 0 where the kubelet is handed back."""
    if profile.kubelet.state == "absent":
        reserved = Reasoned(MemoryPlan(machine.memory_bytes or 0, 0, 0, 0))
    else:
        reserved = _reservations(machine, profile, existing, pools, earlier)
    nodes = _numa_nodes(machine, profile, existing, pools, cpus.reserved, earlier, reserved.value)
    return Reasoned(
        replace(reserved.value, numa_nodes=nodes.value),
        (*reserved.decisions, *nodes.decisions),
        (*reserved.notices, *nodes.notices),
    )
