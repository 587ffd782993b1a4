"""What to change in a pod or a node so that the pod fits: each change has been tried, and helps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from numaforge.errors import KubeletConfigError, NumaforgeError
from numaforge.explain.candidates import Candidate, emptied, reconfigured
from numaforge.explain.claims import ClaimSpec, PodClaim
from numaforge.explain.placement import Placement, place
from numaforge.explain.placing import cordon_aside, shown_taint
from numaforge.explain.workload import GangPod, Unit, Workload
from numaforge.kubelet.admission import Container, Pod
from numaforge.kubelet.admission.demand import GUARANTEED, qos_class
from numaforge.kubelet.admission.fit import MOST_NUMA_NODES, whole_core_on_each_node
from numaforge.kubelet.admission.pod import CPU, MEMORY, is_extended, shape_of_pod
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.kubelet.admission.scheduler import like
from numaforge.kubelet.admission.settings import STATIC
from numaforge.kubelet.minors.options import (
    DISTRIBUTE_ACROSS_NUMA,
    FULL_PCPUS_ONLY,
    TOPOLOGY_MANAGER_POLICIES,
    TOPOLOGY_MANAGER_SCOPES,
)
from numaforge.kubelet.values.pages import in_pages, size_of
from numaforge.quantity import format_amount, format_bytes, parse_bytes

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


@dataclass(frozen=True)
class Remedy:
    """A change with which `fit` pods of the workload fit, on `nodes`; `of` is "pod", "node" or "cluster"."""

    of: str
    change: str
    fit: int
    nodes: tuple[str, ...]


def remedies(
    workload: Workload, about: GangPod, nodes: Sequence[Candidate], now: Placement
) -> tuple[Remedy, ...]:
    """Return the changes that each make a workload fit, the smallest of each sort.

    `about` is its first pod that does not fit; `now` has the nodes with the pods that do.
    """
    alike: Mapping[str, tuple[str, ...]] = {}
    if len(workload.members) == 1:
        sorts = _sorts(about, nodes)
        nodes, alike = (
            _unlike(about, nodes),
            {each[0].name: tuple(one.name for one in each) for each in sorts},
        )
    trial = _Trial(workload, about, tuple(nodes), alike)
    found = [*trial.of_pod(), *trial.of_node(), *trial.of_cluster(now)]
    return tuple(dict.fromkeys(found))


def aligning(about: GangPod, nodes: Sequence[Candidate]) -> tuple[Remedy, ...]:
    """Return the change of CPUs that aligns a pod which fits, but unaligned."""
    takers = [each for each in _unlike(about, nodes) if each.judge(about).fits]
    if not takers or any(_is_aligned(each, about) for each in takers):
        return ()
    trial = _Trial(Workload("Pod", about.pod.name, (Unit((about,)),), 1), about, tuple(takers), {})
    for container in about.pod.containers:
        for change, member in trial.cpus(container, up=False):
            if names := tuple(each.name for each in takers if _is_aligned(each, member)):
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
    for each in _unlike(about, nodes):
        if each.kubelet is None or each.kubelet.node.cpu_manager is None or not each.judge(about).fits:
            continue
        judged = each.judge(changed)
        if judged.fits and judged.kubelet and len(judged.kubelet.cpus) == len(exact.containers):
            what = "requests equal to limits, CPUs in whole numbers: exclusive CPUs, aligned with the rest"
            return (Remedy("pod", what, 1, (each.name,)),)
    return ()


def _sorts(about: GangPod, nodes: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the nodes grouped by verdict, those that the scheduler accepts first."""
    sorts: dict[object, list[Candidate]] = {}
    for each in nodes:
        reasons = each.judge(about).reasons
        devices = id(each.devices) if each.has_claims(about) else None
        sorts.setdefault((reasons, id(each.kubelet), devices), []).append(each)
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
    """For a node that stands for others, the names of all of them."""

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
                pod, pod=member.pod.named(pod.pod.name), placing=member.placing, claims=member.claims
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
        for each in self.nodes:
            for taint in cordon_aside(each.taints):
                if not placing.tolerates(taint):
                    toleration = {
                        "operator": "Exists",
                        "key": taint.get("key"),
                        "effect": taint.get("effect"),
                    }
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
        """Yield the pod with a resource that some node offers in place of one that none does."""
        offered = {name: None for node in self.nodes for name, amount in node.allocatable.items() if amount}
        for container in self.about.pod.containers:
            for resource, amount in container.limits.items():
                if "/" not in resource or resource in offered:
                    continue
                for name in like(resource, offered):
                    requests, limits = (
                        {name if key == resource else key: value for key, value in held.items()}
                        for held in (container.requests, container.limits)
                    )
                    changed = replace(container, requests=requests, limits=limits)
                    containers = (changed if c is container else c for c in self.about.pod.containers)
                    pod = replace(self.about.pod, containers=tuple(containers))
                    yield f"{_said(name, amount)} instead of {resource}", self._changed(pod)

    def _fewer_claimed(self) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod with fewer devices in one request of a claim."""
        for claim, spec in self._claimed():
            for request, ways in spec.requests:
                if len(ways) > 1 or ways[0].takes_all:
                    continue
                asked = ways[0].count
                for count in range(asked - 1, 0, -1):
                    changed = replace(claim, counts=((request, count),))
                    change = f"{count} instead of {asked} in the request {request} of its claim {claim.name}"
                    yield change, self._with_claim(claim, changed)

    def _smaller_shares(self) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod with less of a capacity of each device in one request of a claim."""
        for claim, spec in self._claimed():
            for request, ways in spec.requests:
                if len(ways) > 1:
                    continue
                for name, asked in ways[0].capacity.items():
                    grain = max(1, int(asked) // self._most_trials())
                    for amount in range(int(ceil(asked) - 1) // grain * grain, 0, -grain):
                        changed = replace(claim, capacity=((request, name, Fraction(amount)),))
                        less = f"{format_amount(Fraction(amount))} instead of {format_amount(asked)} {name}"
                        change = f"{less} of each device in the request {request} of its claim {claim.name}"
                        yield change, self._with_claim(claim, changed)

    def _unbound(self) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod without a claim's constraints on one attribute."""
        for claim, spec in self._claimed():
            for attribute in dict.fromkeys(each.attribute for each in spec.constraints):
                changed = replace(claim, without=(attribute,))
                change = f"without the constraint on {attribute} in its claim {claim.name}"
                yield change, self._with_claim(claim, changed)

    def _claimed(self) -> Iterator[tuple[PodClaim, ClaimSpec]]:
        """Yield the claims that are not allocated, with what they ask for."""
        for claim in self.about.claims:
            found = (each.place.spec(claim) for each in self.nodes)
            spec = next((each for each in found if each is not None), None)
            if spec is not None:
                yield claim, spec

    def _with_claim(self, claim: PodClaim, changed: PodClaim) -> GangPod:
        claims = tuple(changed if each is claim else each for each in self.about.claims)
        return replace(self.about, claims=claims)

    def _largest(self) -> Sequence[Container]:
        """Return the container with the most CPUs, and the one with the most memory."""
        pods = self.about.pod.containers
        cpus = max(pods, key=lambda each: each.requests.get(CPU, 0))
        memory = max(pods, key=lambda each: each.requests.get(MEMORY, 0))
        return [cpus] if cpus is memory else [cpus, memory]

    def cpus(self, container: Container, *, up: bool) -> Iterator[tuple[str, GangPod]]:
        """Yield the pod with more and more CPUs for one container, or with fewer and fewer."""
        cpus, step, most = container.whole_cpus, self._step(), self._most_cpus()
        if not cpus:
            return
        if up:
            values = list(range(ceil((cpus + 1) / step) * step, most + 1, step))
        else:
            values = list(range(min(cpus - 1, most) // step * step, 0, -step))
        for value in _evenly(values, self._most_trials()):
            pod = self.about.pod.asking(container, {CPU: Fraction(value)})
            yield f"{value} CPUs instead of {cpus} in the container {container.name}", self._changed(pod)

    def _memory(self, container: Container, resource: str) -> Iterator[Remedy]:
        """Yield the most memory with which the pod fits, in sixteenths of what it asks for."""
        asked = int(container.requests.get(resource, 0))
        grain = asked // _MEMORY_STEPS
        if not grain:
            return

        def tried(steps: int) -> Remedy | None:
            size = grain * steps
            page = _page_of(resource)
            size = size // page * page
            if not size:
                return None
            pod = self.about.pod.asking(container, {resource: Fraction(size)})
            change = f"{resource} of {format_bytes(size)} instead of {format_bytes(asked)}"
            return self._proved(f"{change} in the container {container.name}", self._changed(pod))

        low, high = 1, _MEMORY_STEPS - 1
        best = tried(low)
        while best and low < high:
            middle = (low + high + 1) // 2
            if found := tried(middle):
                best, low = found, middle
            else:
                high = middle - 1
        if best:
            yield best

    def _most_devices(self, resource: str) -> int:
        """Return the most devices to try: what a node advertises, or what claims may serve."""
        advertised = max((each.allocatable.get(resource, 0) for each in self.nodes), default=0)
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
                    pod = self.about.pod.asking(container, values)
                    said = ", ".join(_said(name, value) for name, value in values.items())
                    yield f"{said} in the container {container.name}", self._changed(pod)

    def _share(self, container: Container, share: Fraction) -> dict[str, Fraction]:
        """Return the CPUs, in whole cores, and the memory that go with a share of a container's devices."""
        found: dict[str, Fraction] = {}
        if container.whole_cpus:
            step = self._step()
            fewer = max(step, int(container.whole_cpus * share) // step * step)
            found[CPU] = Fraction(min(container.whole_cpus, fewer))
        for resource, size in container.requests.items():
            if resource == MEMORY or in_pages(resource):
                page = _page_of(resource)
                found[resource] = Fraction(int(size * share) // page * page)
        return found

    def _changed(self, pod: Pod) -> GangPod:
        return replace(self.about, pod=pod)

    def _step(self) -> int:
        cores = [each.kubelet.node.machine.cpus.cpus_per_core for each in self.nodes if each.kubelet]
        return max(1, *cores) if cores else 1

    def _most_cpus(self) -> int:
        return max((each.allocatable.get(CPU, 0) // 1000 for each in self.nodes), default=0)

    def _most_trials(self) -> int:
        kubelets = [each.kubelet for each in self.nodes if each.kubelet]
        if any(len(each.node.machine.nodes) > MOST_NUMA_NODES for each in kubelets):
            return _MOST_TRIALS_OF_MANY_NUMA_NODES
        return _MOST_TRIALS if len(self.workload.members) == 1 else _MOST_TRIALS_OF_GANGS

    # ---- the node ----

    def of_node(self) -> Iterator[Remedy]:
        """Yield the smallest change of each sort to the kubelets' configuration.

        What runs there has to be admitted under it, too.
        """
        kubelets = {id(each.kubelet): each.kubelet for each in self.nodes if each.kubelet}
        if not kubelets:
            return
        settings = [each.node.settings for each in kubelets.values()]
        strictest = max(TOPOLOGY_MANAGER_POLICIES.index(each.topology_policy) for each in settings)
        looser = [
            (f"topologyManagerPolicy: {policy}", _setting("topologyManagerPolicy", policy))
            for policy in reversed(TOPOLOGY_MANAGER_POLICIES[:strictest])
        ]
        yield from self._first_of_node(looser)
        for scope in TOPOLOGY_MANAGER_SCOPES:
            if strictest and any(each.topology_scope != scope for each in settings):
                change = f"topologyManagerScope: {scope}"
                yield from self._first_of_node([(change, _setting("topologyManagerScope", scope))])
        if all(each.cpu_policy == STATIC for each in settings):
            if any(each.cpu_options.full_pcpus_only for each in settings):
                change = f"without {FULL_PCPUS_ONLY}"
                yield from self._first_of_node([(change, _option(FULL_PCPUS_ONLY, on=False))])
            if not all(each.cpu_options.distribute_across_numa for each in settings):
                change = f"with {DISTRIBUTE_ACROSS_NUMA}"
                yield from self._first_of_node([(change, _option(DISTRIBUTE_ACROSS_NUMA, on=True))])
            yield from self._first_of_node([("a whole core reserved on each NUMA node", _core_on_each)])
        if any(each.memory_policy == "Static" for each in settings):
            yield from self._first_of_node([("memoryManagerPolicy: None", _no_memory_manager)])

    def _first_of_node(self, changes: Sequence[tuple[str, _Change]]) -> Iterator[Remedy]:
        for change, settings in changes:
            made: dict[int, Candidate | None] = {}
            nodes: list[Candidate] = []
            for each in self.nodes:
                if each.kubelet is None or each.scenario is None:
                    continue
                key = id(each.kubelet)
                if key not in made:
                    made[key] = _tried(each, settings)
                if (like := made[key]) is not None:
                    nodes.append(replace(each, kubelet=like.kubelet, allocatable=like.allocatable))
            if remedy := self._helped("node", change, place(self.workload.units, nodes)):
                yield remedy
                return

    # ---- the cluster ----

    def of_cluster(self, now: Placement) -> Iterator[Remedy]:
        """Yield the smallest pod whose departure makes room for the missing one, and more nodes."""
        if self.workload.least - len(now.where) == 1:
            yield from self._one_leaves(now)
        if len(self.workload.members) > 1:
            yield from self._more_nodes()

    def _one_leaves(self, now: Placement) -> Iterator[Remedy]:
        own = {member.pod.name for member in self.workload.members}
        for each in _unlike(self.about, now.nodes):
            if each.kubelet is None:
                continue
            theirs = [
                one
                for one in each.kubelet.running
                if not one.pod.name.startswith("?") and one.name not in own
            ]
            for one in sorted(theirs[:_MOST_LEAVING], key=lambda one: one.pod.containers[0].whole_cpus):
                left = each.left(one)
                if left is not None and left.judge(self.about).fits:
                    change = f"once {one.name} has left {each.name}"
                    yield Remedy("cluster", change, len(now.where) + 1, (each.name,))
                    return

    def _more_nodes(self) -> Iterator[Remedy]:
        kinds = {id(each.scenario): each for each in self.nodes if each.kubelet and each.scenario}
        for each in list(kinds.values())[:_MOST_UNLIKE]:
            fresh = emptied(each)
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
            change = f"{low} more {nodes} like {each.name}"
            yield Remedy("cluster", change, len(with_more(low).where), (each.name,))
            return


_Change = Callable[[Candidate], dict[str, Any] | None]


def _tried(candidate: Candidate, settings: _Change) -> Candidate | None:
    """Return a node with other settings and its pods; None where its kubelet would refuse either."""
    try:
        changed = settings(candidate)
        return None if changed is None else reconfigured(candidate, changed)
    except (KubeletConfigError, KubeletHangError):
        return None


def _setting(key: str, value: str) -> _Change:
    return lambda _: {key: value}


def _option(option: str, *, on: bool) -> _Change:
    return lambda candidate: candidate.scenario.toggled(option, on=on) if candidate.scenario else None


def _core_on_each(candidate: Candidate) -> dict[str, Any] | None:
    cpulist = whole_core_on_each_node(candidate.kubelet.node) if candidate.kubelet else None
    return None if cpulist is None else {"reservedSystemCPUs": cpulist}


def _no_memory_manager(_: Candidate) -> dict[str, Any]:
    return {"memoryManagerPolicy": "None", "reservedMemory": []}


def _guaranteed(pod: Pod) -> Pod | None:
    """Return a pod with requests equal to limits and whole CPUs; None where it has both, or lacks limits."""
    whole = all(each.whole_cpus for each in pod.containers)
    if (qos_class(pod) == GUARANTEED and whole) or pod.has_pod_level_resources:
        return None
    if not all(each.limits.get(CPU) and each.limits.get(MEMORY) for each in pod.containers):
        return None
    containers = []
    for each in pod.containers:
        limits = {**each.limits, CPU: Fraction(ceil(each.limits[CPU]))}
        containers.append(replace(each, limits=limits, requests=limits))
    return replace(pod, containers=tuple(containers))


def _evenly(values: Sequence[int], most: int) -> Iterator[int]:
    """Yield values in order; of more than `most`, only `most` in even steps."""
    if len(values) <= most:
        yield from values
        return
    for number in range(most):
        yield values[number * (len(values) - 1) // max(1, most - 1)]


def _page_of(resource: str) -> int:
    """Return the size of a page in bytes: memory is tried in whole MiB."""
    if not in_pages(resource):
        return 2**20
    try:
        return max(1, parse_bytes(size_of(resource)))
    except NumaforgeError:
        return 1


def _said(resource: str, value: Fraction) -> str:
    if resource == CPU:
        return f"{value} CPUs"
    if resource == MEMORY or in_pages(resource):
        return f"{format_bytes(int(value))} {resource}"
    return f"{value} {resource}"
