"""What to change in a pod or a node so that the pod fits: each change has been tried, and helps."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from numaforge.cluster.explain.candidates import Candidate, emptied, reconfigured
from numaforge.cluster.explain.claims import ClaimSpec, DeviceWish, PodClaim
from numaforge.cluster.explain.placement import Placement, place
from numaforge.cluster.explain.placing import cordon_aside, shown_taint
from numaforge.cluster.explain.workload import GangPod, Unit, Workload
from numaforge.kubelet.admission.demand import GUARANTEED, qos_class
from numaforge.kubelet.admission.fit import MOST_NUMA_NODES, whole_core_on_each_node
from numaforge.kubelet.admission.pod import CPU, MEMORY, Container, Pod, is_extended, shape_of_pod
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.kubelet.admission.scheduler import like
from numaforge.kubelet.admission.settings import STATIC
from numaforge.kubelet_minors.options import (
    DISTRIBUTE_ACROSS_NUMA,
    FULL_PCPUS_ONLY,
    TOPOLOGY_MANAGER_POLICIES,
    TOPOLOGY_MANAGER_SCOPES,
)
from numaforge.kubelet_minors.values.pages import in_pages, size_of
from numaforge.lib.errors import KubeletConfigError, NumaforgeError
from numaforge.lib.quantity import counted, format_amount, format_bytes, parse_bytes

_MOST_CLAIMED = 1024
"""Devices of a resource that claims serve on a node: its slices have 128 each."""
_MOST_ADVERTISED = 2**31
"""More are a mistake in the Node."""
_MOST_TRIALS = 128
"""How many amounts of CPUs are tried; of more, as many in even steps."""
_MOST_TRIALS_OF_GANGS = 16
_MOST_TRIALS_OF_MANY_NUMA_NODES = 6  # an admission takes 0.1 s there
_MOST_UNLIKE = 4
"""On how many unlike nodes a change to one pod is tried."""
_MOST_LEAVING = 64
_MEMORY_STEPS = 16

_Change = Callable[[Candidate], dict[str, Any] | None]
_NodeChange = tuple[str, _Change]


class Remedy(NamedTuple):
    """A change with which `fit` pods of the workload fit, on `nodes`; `of` is "pod", "node" or "cluster"."""

    of: str
    change: str
    fit: int
    nodes: tuple[str, ...]


def remedies(
    workload: Workload, about: GangPod, nodes: Sequence[Candidate], placement: Placement
) -> tuple[Remedy, ...]:
    """Return the smallest change of each sort that makes a workload fit; its pod `about` does not."""
    alike: Mapping[str, tuple[str, ...]] = {}
    if len(workload.members) == 1:
        sorts = _sorts(about, nodes)
        nodes, alike = (
            _unlike(about, nodes),
            {alike[0].name: tuple(one.name for one in alike) for alike in sorts},
        )
    trial = _Trial(workload, about, tuple(nodes), alike)
    changes = [*trial.of_pod(), *trial.of_node(), *trial.of_cluster(placement)]
    return tuple(dict.fromkeys(changes))


def aligning(about: GangPod, nodes: Sequence[Candidate]) -> tuple[Remedy, ...]:
    """Return the change of CPUs that aligns a pod which fits, but unaligned."""
    takers = [node for node in _unlike(about, nodes) if node.judge(about).fits]
    if not takers or any(_is_aligned(node, about) for node in takers):
        return ()
    trial = _Trial(Workload("Pod", about.pod.name, (Unit((about,)),), 1), about, tuple(takers), {})
    for container in about.pod.containers:
        for change, member in trial.cpus(container, up=False):
            if names := tuple(node.name for node in takers if _is_aligned(node, member)):
                return (Remedy("pod", f"{change}, to be aligned", 1, names),)
    return ()


def _is_aligned(node: Candidate, member: GangPod) -> bool:
    judged = node.judge(member)
    return judged.fits and judged.kubelet is not None and judged.kubelet.aligned


def pinning(about: GangPod, nodes: Sequence[Candidate]) -> tuple[Remedy, ...]:
    """Return the change that gives exclusive CPUs to a pod which fits without them."""
    exact = _guaranteed(about.pod)
    if exact is None:
        return ()
    changed = replace(about, pod=exact)
    for node in _unlike(about, nodes):
        if node.kubelet is None or node.kubelet.node.cpu_manager is None or not node.judge(about).fits:
            continue
        judged = node.judge(changed)
        if judged.fits and judged.kubelet and len(judged.kubelet.cpus) == len(exact.containers):
            change = "requests equal to limits, CPUs in whole numbers: exclusive CPUs, aligned with the rest"
            return (Remedy("pod", change, 1, (node.name,)),)
    return ()


def _sorts(about: GangPod, nodes: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the nodes grouped by verdict, those that the scheduler accepts first."""
    sorts: dict[object, list[Candidate]] = {}
    for node in nodes:
        reasons = node.judge(about).reasons
        devices = id(node.devices) if node.has_claims(about) else None
        sorts.setdefault((reasons, id(node.kubelet), devices), []).append(node)
    return sorted(sorts.values(), key=lambda sort: bool(sort[0].judge(about).reasons))


def _unlike(about: GangPod, nodes: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return one node of each of the first few sorts."""
    return tuple(sort[0] for sort in _sorts(about, nodes)[:_MOST_UNLIKE])


@dataclass(frozen=True)
class _Trial:
    workload: Workload
    about: GangPod
    nodes: tuple[Candidate, ...]
    alike: Mapping[str, tuple[str, ...]]
    """The names of all nodes that a node represents."""

    # ---- the pod ----

    def of_pod(self) -> Iterator[Remedy]:
        """Yield the smallest change of each sort to the pod that does not fit, and to those like it."""
        yield from self._first(self._elsewhere())
        yield from self._first(self._renamed())
        yield from self._first(self._fewer_claimed())
        yield from self._first(self._smaller_shares())
        yield from self._first(self._unbound())
        for container in self._largest():
            yield from self._first(self.cpus(container, up=True))
            yield from self._first(self.cpus(container, up=False))
            yield from self._memory(container, MEMORY)
            for resource in container.requests:
                if in_pages(resource):
                    yield from self._memory(container, resource)
        yield from self._first(self._fewer_devices(in_proportion=False))
        yield from self._first(self._fewer_devices(in_proportion=True))

    def _first(self, changes: Iterable[tuple[str, GangPod]]) -> Iterator[Remedy]:
        for change, member in changes:
            if remedy := self._proved(change, member):
                yield remedy
                return

    def _proved(self, change: str, member: GangPod) -> Remedy | None:
        shape = shape_of_pod(self.about.pod)

        def changed(pod: GangPod) -> GangPod:
            if shape_of_pod(pod.pod) != shape or pod.claims != self.about.claims:
                return pod
            return replace(
                pod, pod=member.pod.renamed(pod.pod.name), placing=member.placing, claims=member.claims
            )

        return self._helped("pod", change, place(self.workload.with_members(changed), self.nodes))

    def _helped(self, of: str, change: str, placement: Placement) -> Remedy | None:
        fit = len(placement.where)
        if fit < self.workload.least:
            return None
        where = (self.alike.get(name, (name,)) for name in dict.fromkeys(placement.where))
        return Remedy(of, change, fit, tuple(name for names in where for name in names))

    def _elsewhere(self) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod with one more toleration, or without a selector, its affinity or its nodeName."""
        placing = self.about.placing
        for taint in (taint for node in self.nodes for taint in cordon_aside(node.taints)):
            if not placing.tolerates(taint):
                toleration = {"operator": "Exists", "key": taint.get("key"), "effect": taint.get("effect")}
                wider = replace(placing, tolerations=(*placing.tolerations, toleration))
                yield f"tolerate the taint {shown_taint(taint)}", replace(self.about, placing=wider)
        for key in placing.selector:
            rest = {name: value for name, value in placing.selector.items() if name != key}
            wider = replace(placing, selector=rest)
            yield f"without {key} in its nodeSelector", replace(self.about, placing=wider)
        if placing.terms is not None:
            yield "without its node affinity", replace(self.about, placing=replace(placing, terms=None))
        if placing.node_name is not None:
            yield "without its nodeName", replace(self.about, placing=replace(placing, node_name=None))

    def _renamed(self) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod with a resource that some node offers, instead of one that none offers."""
        offered = {name: None for node in self.nodes for name, amount in node.allocatable.items() if amount}
        for container in self.about.pod.containers:
            for resource, amount in container.limits.items():
                if "/" not in resource or resource in offered:
                    continue
                for name in (name for name in like(resource, offered) if name not in container.limits):
                    requests, limits = (
                        {name if key == resource else key: value for key, value in amounts.items()}
                        for amounts in (container.requests, container.limits)
                    )
                    changed = replace(container, requests=requests, limits=limits)
                    containers = (changed if c is container else c for c in self.about.pod.containers)
                    pod = replace(self.about.pod, containers=tuple(containers))
                    change = f"{_amount_words(name, amount)} instead of {resource}"
                    yield change, replace(self.about, pod=pod)

    def _fewer_claimed(self) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod with fewer devices in one request of a claim."""
        for claim, request, wish in self._requests():
            for count in range(wish.count - 1, 0, -1) if not wish.takes_all else ():
                change = f"{count} instead of {wish.count} in the request {request} of its claim {claim.name}"
                yield change, self._with_claim(claim, counts=((request, count),))

    def _smaller_shares(self) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod with less of a capacity of each device in one request of a claim."""
        for claim, request, wish in self._requests():
            for name, asked_amount in wish.capacity.items():
                grain = max(1, int(asked_amount) // self._most_trials())
                for amount in range(int(ceil(asked_amount) - 1) // grain * grain, 0, -grain):
                    less = f"{format_amount(Fraction(amount))} instead of {format_amount(asked_amount)}"
                    change = (
                        f"{less} {name} of each device in the request {request} of its claim {claim.name}"
                    )
                    yield change, self._with_claim(claim, capacity=((request, name, Fraction(amount)),))

    def _unbound(self) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod without a claim's constraints on one attribute."""
        for claim, spec in self._claimed():
            for attribute in dict.fromkeys(constraint.attribute for constraint in spec.constraints):
                change = f"without the constraint on {attribute} in its claim {claim.name}"
                yield change, self._with_claim(claim, without=(attribute,))

    def _claimed(self) -> Iterator[tuple[PodClaim, ClaimSpec]]:
        """Yield the unallocated claims with their specs."""
        for claim in self.about.claims:
            if spec := next(filter(None, (node.place.spec(claim) for node in self.nodes)), None):
                yield claim, spec

    def _requests(self) -> Iterator[tuple[PodClaim, str, DeviceWish]]:
        """Yield the requests without alternatives of the unallocated claims."""
        for claim, spec in self._claimed():
            yield from ((claim, request, ways[0]) for request, ways in spec.requests if len(ways) == 1)

    def _with_claim(self, claim: PodClaim, **changes: Any) -> GangPod:
        claims = (
            replace(pod_claim, **changes) if pod_claim is claim else pod_claim
            for pod_claim in self.about.claims
        )
        return replace(self.about, claims=tuple(claims))

    def _largest(self) -> Sequence[Container]:
        """Return the container with the most CPUs, and the one with the most memory."""
        pods = self.about.pod.containers
        cpus = max(pods, key=lambda each: each.requests.get(CPU, 0))
        memory = max(pods, key=lambda each: each.requests.get(MEMORY, 0))
        return [cpus] if cpus is memory else [cpus, memory]

    def cpus(self, container: Container, *, up: bool) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod with more and more CPUs for one container, or with fewer and fewer."""
        cpus, step = container.whole_cpus, self._step()
        most = max((node.allocatable.get(CPU, 0) // 1000 for node in self.nodes), default=0)
        if not cpus:
            return
        upward = range(ceil((cpus + 1) / step) * step, most + 1, step)
        downward = range(min(cpus - 1, most) // step * step, 0, -step)
        for value in _evenly(upward if up else downward, self._most_trials()):
            change = f"{counted(value, 'CPU')} instead of {cpus} in the container {container.name}"
            yield change, self._asking(container, {CPU: Fraction(value)})

    def _memory(self, container: Container, resource: str) -> Iterator[Remedy]:
        """Yield the most memory that fits, in sixteenths of the request."""
        asked_bytes = int(container.requests.get(resource, 0))
        grain = asked_bytes // _MEMORY_STEPS
        if not grain:
            return

        def tried(steps: int) -> Remedy | None:
            size = _in_pages(resource, grain * steps)
            if not size:
                return None
            change = f"{resource} of {format_bytes(size)} instead of {format_bytes(asked_bytes)}"
            member = self._asking(container, {resource: Fraction(size)})
            return self._proved(f"{change} in the container {container.name}", member)

        low, high = 1, _MEMORY_STEPS - 1
        best = tried(low)
        while best and low < high:
            middle = (low + high + 1) // 2
            if remedy := tried(middle):
                best, low = remedy, middle
            else:
                high = middle - 1
        if best:
            yield best

    def _most_devices(self, resource: str) -> int:
        """Return the most devices to try: what a node advertises, or what claims may serve."""
        advertised = max((node.allocatable.get(resource, 0) for node in self.nodes), default=0)
        return min(max(advertised, _MOST_CLAIMED), _MOST_ADVERTISED)

    def _fewer_devices(self, *, in_proportion: bool) -> Iterator[tuple[str, GangPod]]:
        for container in self.about.pod.containers:
            for resource, amount in container.limits.items():
                if not is_extended(resource) or amount < 2:
                    continue
                fewer = range(min(int(amount) - 1, self._most_devices(resource)), 0, -1)
                for count in _evenly(fewer, self._most_trials()):
                    share = Fraction(count, int(amount))
                    values = {resource: Fraction(count)}
                    if in_proportion:
                        values |= self._share(container, share)
                    changes = ", ".join(_amount_words(name, value) for name, value in values.items())
                    yield f"{changes} in the container {container.name}", self._asking(container, values)

    def _share(self, container: Container, share: Fraction) -> dict[str, Fraction]:
        """Return the CPUs, in whole cores, and the memory that go with a share of a container's devices."""
        amounts: dict[str, Fraction] = {}
        if container.whole_cpus:
            step = self._step()
            fewer = max(step, int(container.whole_cpus * share) // step * step)
            amounts[CPU] = Fraction(min(container.whole_cpus, fewer))
        for resource, size in container.requests.items():
            if resource == MEMORY or in_pages(resource):
                amounts[resource] = Fraction(_in_pages(resource, int(size * share)))
        return amounts

    def _asking(self, container: Container, requests: Mapping[str, Fraction]) -> GangPod:
        return replace(self.about, pod=self.about.pod.asking(container, requests))

    def _step(self) -> int:
        cores = [node.kubelet.node.machine.cpus.cpus_per_core for node in self.nodes if node.kubelet]
        return max(1, *cores) if cores else 1

    def _most_trials(self) -> int:
        kubelets = [node.kubelet for node in self.nodes if node.kubelet]
        if any(len(kubelet.node.machine.nodes) > MOST_NUMA_NODES for kubelet in kubelets):
            return _MOST_TRIALS_OF_MANY_NUMA_NODES
        return _MOST_TRIALS if len(self.workload.members) == 1 else _MOST_TRIALS_OF_GANGS

    # ---- the node ----

    def of_node(self) -> Iterator[Remedy]:
        """Yield the smallest change of each sort to kubelets under which their pods are admitted, too."""
        kubelets = {id(node.kubelet): node.kubelet for node in self.nodes if node.kubelet}
        settings = [kubelet.node.settings for kubelet in kubelets.values()]
        strictest = max((TOPOLOGY_MANAGER_POLICIES.index(one.topology_policy) for one in settings), default=0)
        looser = reversed(TOPOLOGY_MANAGER_POLICIES[:strictest])
        changes = [[_setting("topologyManagerPolicy", policy) for policy in looser]]
        for scope in TOPOLOGY_MANAGER_SCOPES if strictest else ():
            if any(one.topology_scope != scope for one in settings):
                changes.append([_setting("topologyManagerScope", scope)])
        if settings and all(one.cpu_policy == STATIC for one in settings):
            if any(one.cpu_options.full_pcpus_only for one in settings):
                changes.append([(f"without {FULL_PCPUS_ONLY}", _option(FULL_PCPUS_ONLY, on=False))])
            if not all(one.cpu_options.distribute_across_numa for one in settings):
                changes.append([(f"with {DISTRIBUTE_ACROSS_NUMA}", _option(DISTRIBUTE_ACROSS_NUMA, on=True))])
            changes.append([("a whole core reserved on each NUMA node", _core_on_each)])
        if any(one.memory_policy == "Static" for one in settings):
            without: dict[str, Any] = {"memoryManagerPolicy": "None", "reservedMemory": []}
            changes.append([("memoryManagerPolicy: None", lambda _: without)])
        for alternatives in changes:
            yield from self._first_of_node(alternatives)

    def _first_of_node(self, changes: Sequence[_NodeChange]) -> Iterator[Remedy]:
        for change, settings in changes:
            trials: dict[int, Candidate | None] = {}
            nodes: list[Candidate] = []
            for node in self.nodes:
                if id(node.kubelet) not in trials:
                    trials[id(node.kubelet)] = _tried(node, settings)
                if (like := trials[id(node.kubelet)]) is not None:
                    nodes.append(replace(node, kubelet=like.kubelet, allocatable=like.allocatable))
            if remedy := self._helped("node", change, place(self.workload.units, nodes)):
                yield remedy
                return

    # ---- the cluster ----

    def of_cluster(self, placement: Placement) -> Iterator[Remedy]:
        """Yield the smallest pod that would make room for the missing one, and more nodes."""
        if self.workload.least - len(placement.where) == 1:
            yield from self._one_leaves(placement)
        if len(self.workload.members) > 1:
            yield from self._more_nodes()

    def _one_leaves(self, placement: Placement) -> Iterator[Remedy]:
        members = {member.pod.name for member in self.workload.members}
        for node in _unlike(self.about, placement.nodes):
            if node.kubelet is None:
                continue
            movable = [
                one
                for one in node.kubelet.running
                if not one.pod.name.startswith("?") and one.name not in members
            ]
            for one in sorted(movable[:_MOST_LEAVING], key=lambda one: one.pod.containers[0].whole_cpus):
                without_pod = node.without(one)
                if without_pod is not None and without_pod.judge(self.about).fits:
                    change = f"once {one.name} has left {node.name}"
                    yield Remedy("cluster", change, len(placement.where) + 1, (node.name,))
                    return

    def _more_nodes(self) -> Iterator[Remedy]:
        kinds = {id(node.scenario): node for node in self.nodes if node.kubelet and node.scenario}
        for node in list(kinds.values())[:_MOST_UNLIKE]:
            fresh = emptied(node)
            if fresh is None or not fresh.judge(self.about).fits:
                continue
            most = len(self.workload.members)

            def with_more(count: int, fresh: Candidate = fresh) -> Placement:
                more = [fresh.another(f"{fresh.name}+{number}") for number in range(count)]
                return place(self.workload.units, [*self.nodes, *more])

            def enough(count: int) -> bool:
                return len(with_more(count).where) >= self.workload.least

            if not enough(most):
                continue
            low = 1 + bisect_left(range(1, most), True, key=enough)
            nodes = "node" if low == 1 else "nodes"
            change = f"{low} more {nodes} like {node.name}"
            yield Remedy("cluster", change, len(with_more(low).where), (node.name,))
            return


def _tried(candidate: Candidate, settings: _Change) -> Candidate | None:
    """Return a node with other settings and its pods; None where its kubelet would refuse either."""
    try:
        changed = settings(candidate)
        return None if changed is None else reconfigured(candidate, changed)
    except (KubeletConfigError, KubeletHangError):
        return None


def _setting(key: str, value: str) -> _NodeChange:
    return f"{key}: {value}", lambda _: {key: value}


def _option(option: str, *, on: bool) -> _Change:
    return lambda candidate: candidate.scenario.toggled(option, on=on) if candidate.scenario else None


def _core_on_each(candidate: Candidate) -> dict[str, Any] | None:
    cpulist = whole_core_on_each_node(candidate.kubelet.node) if candidate.kubelet else None
    return None if cpulist is None else {"reservedSystemCPUs": cpulist}


def _guaranteed(pod: Pod) -> Pod | None:
    """Return a pod with requests equal to limits and whole CPUs; None where it has both, or lacks limits."""
    whole_cpus = all(container.whole_cpus for container in pod.containers)
    if (qos_class(pod) == GUARANTEED and whole_cpus) or pod.has_pod_level_resources:
        return None
    if not all(container.limits.get(CPU) and container.limits.get(MEMORY) for container in pod.containers):
        return None
    containers = []
    for container in pod.containers:
        limits = {**container.limits, CPU: Fraction(ceil(container.limits[CPU]))}
        containers.append(replace(container, limits=limits, requests=limits))
    return replace(pod, containers=tuple(containers))


def _evenly(values: Sequence[int], most: int) -> Iterator[int]:
    """Yield values in order; of more than `most`, only `most` in even steps."""
    if len(values) <= most:
        yield from values
        return
    for number in range(most):
        yield values[number * (len(values) - 1) // max(1, most - 1)]


def _in_pages(resource: str, size: int) -> int:
    """Return the bytes of a size in whole pages: memory is tried in whole MiB."""
    page = 2**20
    if in_pages(resource):
        try:
            page = max(1, parse_bytes(size_of(resource)))
        except NumaforgeError:
            return size
    return size // page * page


def _amount_words(resource: str, value: Fraction) -> str:
    if resource == CPU:
        return counted(value, "CPU")
    if resource == MEMORY or in_pages(resource):
        return f"{format_bytes(int(value))} {resource}"
    return f"{value} {resource}"
