"""Which policy, scope, options and reservation admit most pods of a fleet, and what is then left.

Pods are placed by kinds of nodes: one node of a kind is filled, and stands for as many of them as the
remaining pods allow. The work depends on the number of kinds, not of nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any, NamedTuple

from numaforge.kubelet.admission.fit import Scenario, scopes_agree, whole_core_on_each_node
from numaforge.kubelet.admission.masks import bits, fewest, ids_of
from numaforge.kubelet.admission.node import Admission, Free, Node
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.predicates import request_of
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.kubelet.admission.scheduler import bound_claims, is_counted, unschedulable, unserved
from numaforge.kubelet.admission.settings import NONE, STATIC, Settings
from numaforge.kubelet_minors.options import (
    DISTRIBUTE_ACROSS_NUMA,
    FULL_PCPUS_ONLY,
    PREFER_ALIGN_BY_UNCORE_CACHE,
    STRICT_CPU_RESERVATION,
    TOPOLOGY_MANAGER_POLICIES,
    TOPOLOGY_MANAGER_SCOPES,
)
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import KubeletConfigError
from numaforge.lib.ordering import grouped

MOST_SHAPES = 32
"""The most shapes placed; where there are more, those with the most pods."""

_SHARE_OF_NODES = 2  # a filled node stands for at most half of those left: the next one has another order
_OPTIONS = (FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_NUMA, PREFER_ALIGN_BY_UNCORE_CACHE, STRICT_CPU_RESERVATION)
_SUMS: Mapping[str, Any] = {
    "cpuManagerPolicy": "none",
    "cpuManagerPolicyOptions": {},
    "memoryManagerPolicy": "None",
    "reservedMemory": [],
    "topologyManagerPolicy": "none",
}
"""A kubelet that only counts, as the scheduler does."""

Changes = Callable[[Scenario], Mapping[str, Any]]


@dataclass(frozen=True)
class Shape:
    """Pods with equal requests, and how many there are."""

    name: str
    pod: Pod
    count: int


class NodeKind(NamedTuple):
    """Equal nodes, by name; `excludes` are the pods whose selector or affinity excludes them, by name."""

    names: tuple[str, ...]
    scenario: Scenario
    excludes: frozenset[str] = frozenset()


class Load(NamedTuple):
    """What a fleet runs: shapes, and the pods that every node has (those of DaemonSets)."""

    shapes: tuple[Shape, ...]
    everywhere: tuple[Pod, ...] = ()

    def on(self, kind: NodeKind) -> "Load":
        """Return the pods that may run on a kind of nodes."""
        return Load(
            tuple(shape for shape in self.shapes if shape.name not in kind.excludes),
            tuple(pod for pod in self.everywhere if pod.name not in kind.excludes),
        )


class KindOutcome(NamedTuple):
    """The outcome for the nodes of a kind: pods by shape, and what is left on one node that no shape can use.

    `busy` is the number of nodes with pods. `free` is what most of them have left once filled up with any
    shapes that still fit; None where not requested. `no_more_pods`: its kubelet's limit of pods is reached.
    """

    names: tuple[str, ...]
    busy: int
    admitted: Mapping[str, int]
    free: Free | None
    no_more_pods: bool = False


@dataclass(frozen=True)
class SettingOutcome:
    """The outcome for the load under one setting.

    `admitted`, `aligned` and `refused` count pods by shape: those that run, those of them whose CPUs, memory
    and devices are on no more NUMA nodes than they need, and how often a kubelet refused one although its
    node had enough in total. `share` is the served share of all requests, each pod weighted by how much of a
    node it takes. `devices` are the GPUs and slices in use. `never` are shapes that not even an empty node
    admits. `error` is why a kubelet would not start.
    """

    policy: str
    scope: str
    change: str
    admitted: Mapping[str, int] = field(default_factory=dict)
    aligned: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    share: float = 0.0
    devices: int = 0
    kinds: tuple[KindOutcome, ...] = ()
    never: tuple[str, ...] = ()
    error: str | None = None

    @property
    def pods(self) -> int:
        """The number of pods that run."""
        return sum(self.admitted.values())

    @property
    def rank(self) -> tuple[int, float, int, int, int]:
        """Sort key of settings: fewest shapes left out, served share, pods, alignment, strictness."""
        is_policy = self.policy in TOPOLOGY_MANAGER_POLICIES
        strict = TOPOLOGY_MANAGER_POLICIES.index(self.policy) if is_policy else 0
        served = -1.0 if self.error else round(self.share, 3)
        return -len(self.never), served, self.pods, sum(self.aligned.values()), strict


class ShapesReport(NamedTuple):
    """The answer: as the nodes are configured, under each policy and scope, and with other options.

    `sums` is what fits by the scheduler's count, whatever the kubelets answer. `best` is the setting that
    admits most, among equals the one that aligns most; `options` are changes to the best policy and scope.
    `on_one_node` counts the pods of DaemonSets with a claim that only one node can have; the others are on
    each node. `unselected` are the shapes whose selector or affinity excludes every node.
    """

    sums: SettingOutcome
    configured: SettingOutcome
    policies: tuple[SettingOutcome, ...]
    options: tuple[SettingOutcome, ...]
    best: SettingOutcome
    on_one_node: int = 0
    unselected: tuple[str, ...] = ()


def best_settings(kinds: Sequence[NodeKind], load: Load) -> ShapesReport:
    """Place a load under each policy and scope, then with other options and reservations for the best.

    Raises KubeletConfigError where a kubelet would not start as configured.
    """
    sums = _tried(kinds, load, "", "", "sums alone", lambda _: _SUMS)
    mixed = {(one.topology_policy, one.topology_scope) for one in map(_settings, kinds)}
    policy, scope = next(iter(mixed)) if len(mixed) == 1 else ("as configured", "")
    configured = _placed(kinds, load, policy, scope, "as configured", _unchanged, filled_up=True)
    policies = tuple(_by_policy(kinds, load, configured))
    best = max((configured, *policies), key=lambda each: each.rank)
    changes = {name: _both(_base(best), change) for name, change in _changes(kinds)}
    options = tuple(
        _tried(kinds, load, best.policy, best.scope, name, change) for name, change in changes.items()
    )
    better = max((best, *options), key=lambda each: each.rank)
    if better is not configured:  # once more, to fill up its nodes and see what is left
        change = changes.get(better.change, _base(better))
        better = _placed(kinds, load, better.policy, better.scope, better.change, change, filled_up=True)
    everywhere = frozenset.intersection(*(kind.excludes for kind in kinds)) if kinds else frozenset()
    unselected = tuple(shape.name for shape in load.shapes if shape.name in everywhere)
    empty = [kind.scenario.node() for kind in kinds]
    on_one_node = sum(any(bound_claims(node, pod) for node in empty) for pod in load.everywhere)
    return ShapesReport(sums, configured, policies, options, better, on_one_node, unselected)


def kinds_of(nodes: Iterable[tuple[str, Scenario, frozenset[str], object]]) -> tuple[NodeKind, ...]:
    """Return nodes grouped by the pods that they exclude and the last element, equal for nodes of a kind."""
    groups = grouped(((excludes, alike), (name, scenario)) for name, scenario, excludes, alike in nodes)
    return tuple(
        NodeKind(tuple(name for name, _ in members), members[0][1], excludes)
        for (excludes, _), members in groups.items()
    )


# ---- the settings that are tried ----


def _settings(kind: NodeKind) -> Settings:
    return kind.scenario.node().settings


def _by_policy(kinds: Sequence[NodeKind], load: Load, configured: SettingOutcome) -> Iterator[SettingOutcome]:
    gates = [one.gates for one in map(_settings, kinds)]
    one_scope = all(scopes_agree(shape.pod, one) for one in gates for shape in load.shapes)
    for policy in TOPOLOGY_MANAGER_POLICIES:
        scopes = TOPOLOGY_MANAGER_SCOPES if policy != NONE and not one_scope else TOPOLOGY_MANAGER_SCOPES[:1]
        for scope in scopes:
            same_scope = one_scope or policy == NONE or scope == configured.scope
            if configured.policy == policy and same_scope:
                yield configured
                continue
            base = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
            yield _tried(kinds, load, policy, scope, "", lambda _, base=base: base)  # type: ignore[misc]


def _changes(kinds: Sequence[NodeKind]) -> Iterator[tuple[str, Changes]]:
    """Yield the options and reservations to try, by name; none where no CPU manager is static."""
    if not any(one.cpu_policy == STATIC for one in map(_settings, kinds)):
        return
    for option in _OPTIONS:
        option_set = any(
            option in (kind.scenario.config.get("cpuManagerPolicyOptions") or {}) for kind in kinds
        )
        word = "without" if option_set else "with"
        yield f"{word} {option}", partial(Scenario.toggled, option=option, on=not option_set)
    yield "a whole core reserved on each NUMA node", _core_on_each
    yield "the reserved cores on one NUMA node", _cores_on_first


def _base(outcome: SettingOutcome) -> Changes:
    if outcome.policy not in TOPOLOGY_MANAGER_POLICIES or outcome.change == "as configured":
        return _unchanged
    base = {"topologyManagerPolicy": outcome.policy, "topologyManagerScope": outcome.scope}
    return lambda _: base


def _unchanged(_: Scenario) -> Mapping[str, Any]:
    return {}


def _both(first: Changes, second: Changes) -> Changes:
    return lambda scenario: {**first(scenario), **second(scenario)}


def _core_on_each(scenario: Scenario) -> Mapping[str, Any]:
    cpulist = whole_core_on_each_node(scenario.node())
    return {} if cpulist is None else {"reservedSystemCPUs": cpulist}


def _cores_on_first(scenario: Scenario) -> Mapping[str, Any]:
    """Return a reservation of as many CPUs as now in whole cores of the first NUMA node with CPUs."""
    node = scenario.node()
    if node.cpu_manager is None:
        return {}
    topology = node.machine.cpus
    first = next(iter(topology.numa_nodes.values()))
    reserved, count = 0, node.cpu_manager.reserved.bit_count()
    for cpu in bits(first):
        if reserved.bit_count() >= count:
            break
        reserved |= topology.cores[topology.places[cpu].core]
    if reserved.bit_count() < count or reserved == node.cpu_manager.reserved:
        return {}
    return {"reservedSystemCPUs": format_cpulist(ids_of(reserved))}


def _tried(
    kinds: Sequence[NodeKind], load: Load, policy: str, scope: str, change: str, settings: Changes
) -> SettingOutcome:
    try:
        return _placed(kinds, load, policy, scope, change, settings, filled_up=False)
    except KubeletConfigError as error:
        return SettingOutcome(policy, scope, change, error=error.message)


# ---- placing the load under one of them ----


def _placed(
    kinds: Sequence[NodeKind],
    load: Load,
    policy: str,
    scope: str,
    change: str,
    settings: Changes,
    *,
    filled_up: bool,
) -> SettingOutcome:
    unplaced = Counter({shape.name: shape.count for shape in load.shapes})
    admitted, aligned, refused = Counter[str](), Counter[str](), Counter[str]()
    devices, outcomes, bound = 0, [], set[str]()
    never = {shape.name for shape in load.shapes}
    # The kinds with the fewest devices first leave the others to pods that need devices.
    for kind in sorted(kinds, key=lambda kind: sum(map(len, (kind.scenario.devices or {}).values()))):
        configured = kind.scenario.configured(**settings(kind.scenario))
        unplaced_before, here = unplaced.copy(), load.on(kind)
        never -= {
            shape.name for shape in here.shapes if shape.name in never and _takes(configured, shape.pod)
        }
        arrangements = [*_arranged(configured, len(kind.names), here, unplaced, bound, filled_up=filled_up)]
        for times, one in arrangements:
            for total, more in ((admitted, one.admitted), (aligned, one.aligned), (refused, one.refused)):
                total.update({name: count * times for name, count in more.items()})
            devices += one.devices * times
        busy = sum(times for times, one in arrangements if one.admitted)
        _, most = max(arrangements, key=lambda each: each[0], default=(0, _Arrangement()))
        placed = {
            name: unplaced_before[name] - unplaced[name]
            for name in unplaced_before
            if unplaced_before[name] > unplaced[name]
        }
        outcomes.append(KindOutcome(kind.names, busy, placed, most.free, most.no_more_pods))
    weights = _weights(kinds, load)
    requested = sum(weights[shape.name] * shape.count for shape in load.shapes)
    served = sum(weights[name] * count for name, count in admitted.items())
    return SettingOutcome(
        policy,
        scope,
        change,
        dict(admitted),
        dict(aligned),
        dict(refused),
        served / requested if requested else 1.0,
        devices,
        tuple(outcomes),
        tuple(shape.name for shape in load.shapes if shape.name in never),
    )


def _takes(scenario: Scenario, pod: Pod) -> bool:
    """Whether an empty node admits a pod."""
    node = scenario.node()
    try:
        return not unschedulable(node, pod) and not node.short_of(pod) and node.admit(pod).admitted
    except KubeletHangError:
        return False


def _weights(kinds: Sequence[NodeKind], load: Load) -> dict[str, float]:
    """Return the share of a node that a pod of each shape takes, on the best kind; 1 where none fits."""
    nodes = [(kind.scenario.node(), kind.excludes) for kind in kinds]
    weights = {}
    for shape in load.shapes:
        sizes = [
            _size(node, shape.pod)
            for node, excludes in nodes
            if shape.name not in excludes and not unschedulable(node, shape.pod)
        ]
        weights[shape.name] = float(min([Fraction(1), *filter(None, sizes)]))
    return weights


@dataclass
class _Arrangement:
    """One node with its admitted pods; `bound` are named claims that no other node can have."""

    admitted: Counter[str] = field(default_factory=Counter)
    aligned: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    devices: int = 0
    bound: set[str] = field(default_factory=set)
    free: Free | None = None
    no_more_pods: bool = False


def _arranged(
    scenario: Scenario, nodes: int, load: Load, unplaced: Counter[str], bound: set[str], *, filled_up: bool
) -> Iterator[tuple[int, _Arrangement]]:
    """Fill the nodes of a kind, and yield each arrangement with the number of nodes that have it.

    `unplaced` are the waiting pods; those that run are subtracted. `bound` are the named claims that nodes
    already have: a pod that names one, also one of a DaemonSet, runs on no further node.
    """

    def runs_here(pod: Pod) -> bool:
        return bound.isdisjoint(claim.claim for claim in pod.claims)

    empty = scenario.node()
    largest_first = sorted(load.shapes, key=lambda shape: _size(empty, shape.pod), reverse=True)
    number = 0
    while nodes and any(unplaced[shape.name] for shape in load.shapes):
        pods = {shape.name: shape.pod for shape in largest_first if runs_here(shape.pod)}
        everywhere = [*filter(runs_here, load.everywhere)]
        # Each setting gets the same orders; half of the nodes are filled in random order, as after a drain.
        random = None if number % 2 == 0 else Random(f"{number}/{nodes}")  # noqa: S311
        share = [name for name in pods for _ in range(-(-unplaced[name] // nodes))]
        if random is not None:
            random.shuffle(share)
        one = _filled(scenario, everywhere, pods, unplaced, share, filled_up=filled_up)
        if not one.admitted and not one.bound:
            yield nodes, one
            return
        bound |= one.bound
        most = 1 if one.bound else -(-nodes // _SHARE_OF_NODES)
        times = min([most, *(unplaced[name] // count for name, count in one.admitted.items())])
        for name, count in one.admitted.items():
            unplaced[name] -= count * times
        yield times, one
        nodes -= times
        number += 1


def _filled(
    scenario: Scenario,
    everywhere: Sequence[Pod],
    pods: Mapping[str, Pod],
    unplaced: Counter[str],
    share: Sequence[str],
    *,
    filled_up: bool,
) -> _Arrangement:
    """Fill a node with its share of the pods in order, then with any waiting pods that fit."""
    node, arrangement = scenario.node(), _Arrangement()
    for number, pod in enumerate(everywhere):
        if unserved(node, pod):
            continue
        bound = bound_claims(node, pod)
        if node.admit(pod, f"{number} everywhere").admitted:
            arrangement.bound |= bound
    waiting = Counter({name: count for name, count in unplaced.items() if count and name in pods})
    closed = {name for name in waiting if unschedulable(node, pods[name])}
    for name in share:
        if name not in closed and waiting[name]:
            _give(node, name, pods[name], waiting, closed, arrangement)
    random = Random(len(share))  # noqa: S311
    while open_to := [name for name, count in waiting.items() if count and name not in closed]:
        [name] = random.choices(open_to, [waiting[name_open] for name_open in open_to])
        _give(node, name, pods[name], waiting, closed, arrangement)
    if filled_up:
        _fill_up(node, pods)
        arrangement.free = node.free()
        arrangement.no_more_pods = len(node.pods) >= node.allocatable.pods
    return arrangement


def _give(
    node: Node, name: str, pod: Pod, waiting: Counter[str], closed: set[str], arrangement: _Arrangement
) -> None:
    """Admit a pod of a shape to a node, or close the node to the shape."""
    if node.short_of(pod) or unserved(node, pod):
        closed.add(name)
        return
    bound = bound_claims(node, pod)
    try:
        answer = node.admit(pod, f"{name} {arrangement.admitted[name]}")
    except KubeletHangError:
        closed.add(name)
        return
    if not answer.admitted:
        closed.add(name)
        arrangement.refused[name] += 1
        return
    waiting[name] -= 1
    arrangement.bound |= bound
    arrangement.admitted[name] += 1
    arrangement.aligned[name] += _is_aligned(node, pod, answer)
    arrangement.devices += sum(
        len(ids)
        for ids_of in answer.devices.values()
        for resource, ids in ids_of.items()
        if is_counted(resource)
    )


def _fill_up(node: Node, pods: Mapping[str, Pod]) -> None:
    """Admit more pods of all shapes, largest first, until none fits."""
    for number, pod in enumerate(sorted(pods.values(), key=lambda pod: _size(node, pod), reverse=True)):
        if unschedulable(node, pod):
            continue
        more = 0
        try:
            while not node.short_of(pod) and not unserved(node, pod):
                if not node.admit(pod, f"{number} more {more}").admitted:
                    break
                more += 1
        except KubeletHangError:
            continue
    node.settle()


def _size(node: Node, pod: Pod) -> Fraction:
    """Return the largest share of any resource of a node that a pod takes."""
    request = request_of(pod, pod_level=True)
    shares = (
        Fraction(amount) / node.allocatable.amount(name)
        for name, amount in request.items()
        if node.allocatable.amount(name)
    )
    return max(shares, default=Fraction(0))


def _is_aligned(node: Node, pod: Pod, answer: Admission) -> bool:
    """Whether each container is on no more NUMA nodes than the neediest of its resources needs."""
    for container in pod.containers:
        cpus, topology = answer.cpus.get(container.name, frozenset()), node.machine.cpus
        touched = {topology.places[cpu].numa_node for cpu in cpus}
        needs = [fewest(map(int.bit_count, topology.numa_nodes.values()), len(cpus))] if cpus else []
        for resource, ids in answer.devices.get(container.name, {}).items():
            plugin = node.device_manager.plugins[resource]
            if ids and plugin.has_topology:
                listed = [device for device in plugin.devices if device.id in set(ids)]
                touched |= {near for device in listed for near in device.numa_nodes or ()}
                near = (members.bit_count() for members in plugin.of_node.values())
                needs.append(fewest(near, len(ids)))
        for block in answer.memory.get(container.name, ()):
            touched |= block.numa_nodes
            if node.memory_manager:
                tables = node.memory_manager.nodes.values()
                needs.append(fewest((table.allocatable(block.resource) for table in tables), block.bytes))
        if len(touched) > max(needs, default=0):
            return False
    return True
