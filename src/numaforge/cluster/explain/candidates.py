"""The candidate nodes of a pod: the scheduler's view of each, its kubelet, and its running pods."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from typing import Any, NamedTuple

from numaforge.cluster.explain.allocation import Allocation, RequestCount, short_name
from numaforge.cluster.explain.claims import NOTHING_KNOWN, ClaimWorld, Served
from numaforge.cluster.explain.cluster import LiveNode, LivePod
from numaforge.cluster.explain.devices import HeldClaim, NodeDevices, devices_on
from numaforge.cluster.explain.node_claims import Place, claimed_device, places_of
from numaforge.cluster.explain.placing import (
    CORDON,
    KEEPS_AWAY,
    HostPort,
    Labels,
    Placing,
    cordon_aside,
    present_labels,
    shown_taint,
)
from numaforge.cluster.explain.workload import GangPod
from numaforge.kubelet.admission.claims import ClaimedDevice
from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.fit import Scenario
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.masks import ids_of
from numaforge.kubelet.admission.node import Admission, Node
from numaforge.kubelet.admission.pod import CPU, MEMORY, Pod, is_extended, shape_of_pod
from numaforge.kubelet.admission.predicates import PODS, request_of
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.kubelet.admission.scheduler import is_counted
from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import KubeletConfigError

_NUMBERS = count()
_HOSTNAME = "kubernetes.io/hostname"
_STORAGE = "ephemeral-storage"


@dataclass(frozen=True)
class GivenMachine:
    """A node's machine and kubelet as given, with the state files as captured.

    A label that is None is missing on the Node. `given_devices` were in use at capture: pod ("namespace/name"
    or UID) -> container -> resource -> ids; None where unknown. `world` has the claim objects of its plan.
    """

    name: str
    scenario: Scenario | None
    labels: Mapping[str, str | None] = field(default_factory=dict)
    why_unknown: str = ""
    given_devices: Mapping[str, Mapping[str, Mapping[str, set[str]]]] | None = None
    world: ClaimWorld = NOTHING_KNOWN


class RunningPod(NamedTuple):
    """A pod on a node: `name` is its name in the cluster; `pod` is named by its UID, for its kubelet."""

    name: str
    pod: Pod


class SaidOfPod(NamedTuple):
    """The scheduler's and the kubelet's verdict on one pod on one node.

    `reasons` are the scheduler's against the node, empty where it may send the pod there. `kubelet` is None
    where the kubelet's answer is unknown, for the reason `unknown`. `requests` are those of the pod's claims.
    `devices` has, where known, the scheduler's choice for each claim without an allocation; claims are named
    as in `requests`.
    """

    reasons: tuple[str, ...]
    kubelet: Admission | None
    unknown: str = ""
    requests: tuple[RequestCount, ...] = ()
    devices: tuple[tuple[str, tuple[ClaimedDevice, ...]], ...] = ()

    @property
    def fits(self) -> bool:
        """Whether scheduler and kubelet both accept the pod."""
        return not self.reasons and self.kubelet is not None and self.kubelet.admitted

    @property
    def disagrees(self) -> bool:
        """Whether the scheduler may send the pod to a kubelet that refuses it."""
        return not self.reasons and self.kubelet is not None and not self.kubelet.admitted


class _Asked(NamedTuple):
    """A kubelet's answer to a pod, and the node afterwards."""

    answer: Admission | KubeletHangError
    pod: Pod
    node: Node


class KnownKubelet:
    """An immutable kubelet at one moment, shared by nodes with equal pods: it answers each pod once."""

    def __init__(self, node: Node, running: tuple[RunningPod, ...]) -> None:
        self.node = node
        self.running = running
        self._asked: dict[Hashable, _Asked] = {}
        self._after: dict[Hashable, KnownKubelet] = {}

    def answer(self, pod: Pod) -> Admission:
        """Return the kubelet's answer to a further pod; raises KubeletHangError without one."""
        trial = self._ask(pod)
        if isinstance(trial.answer, KubeletHangError):
            raise trial.answer
        return replace(trial.answer, name=pod.name)

    def with_pod(self, pod: Pod) -> KnownKubelet:
        """Return the kubelet after it was given a pod, which then runs there if admitted."""
        shape = shape_of_pod(pod)
        if shape not in self._after:
            trial = self._ask(pod)
            trial.node.settle()
            running = self.running
            if isinstance(trial.answer, Admission) and trial.answer.admitted:
                running = (*running, RunningPod(pod.name, trial.pod))
            self._after[shape] = KnownKubelet(trial.node, running)
        return self._after[shape]

    def _ask(self, pod: Pod) -> _Asked:
        """Ask a fork of the kubelet to admit a pod.

        A fork, as removing a pod does not always restore the earlier state: CPUs that a sidecar shared become
        free, although another pod has them.
        """
        shape = shape_of_pod(pod)
        if shape not in self._asked:
            node, named_pod = self.node.fork(), pod.renamed(f"?{next(_NUMBERS)}")
            answer: Admission | KubeletHangError
            try:
                answer = node.admit(named_pod, explained=True)
            except KubeletHangError as hang:
                answer = hang
            self._asked[shape] = _Asked(answer, named_pod, node)
        return self._asked[shape]

    def without(self, running: RunningPod) -> KnownKubelet:
        """Return the kubelet once a pod has left."""
        node = self.node.fork()
        node.remove(running.pod.name)
        node.settle()
        return KnownKubelet(node, tuple(pod for pod in self.running if pod is not running))


_Kubelets = dict[bytes, tuple[KnownKubelet | None, str]]
"""Kubelets with the assumptions behind them, else the reason without one, by what makes them alike."""


@dataclass(frozen=True)
class Candidate:
    """A node as scheduler and kubelet see it; placing a pod makes another candidate.

    `allocatable` is in whole units, CPUs in thousandths; `is_live`: no resource is missing because a plugin
    is unknown. `labels_known`: likewise for labels; else it surely lacks only those in `lacks`. `devices`
    serve claims, None where unknown. `doubts` are assumptions behind the answers. `apart` has the groups of
    pods, one on a host, of which it has one.
    """

    name: str
    labels: Labels
    labels_known: bool
    allocatable: Mapping[str, int]
    is_live: bool
    most_pods: int
    kubelet: KnownKubelet | None
    taints: tuple[Mapping[str, Any], ...] = ()
    cordoned: bool = False
    used: Mapping[str, int] = field(default_factory=dict)
    pods: int = 0
    ports: frozenset[HostPort] = frozenset()
    why_unknown: str = ""
    scenario: Scenario | None = None
    doubts: tuple[str, ...] = ()
    world: ClaimWorld = NOTHING_KNOWN
    devices: NodeDevices | None = None
    lacks: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()

    def judge(self, member: GangPod) -> SaidOfPod:
        """Return the scheduler's and the kubelet's verdict on a pod here."""
        claims = self._claims(member)
        reasons = (*self._reasons(member), *([claims.refusal] if claims.refusal else []))
        answer, unknown = None, self.why_unknown
        if self.kubelet is not None:
            try:
                answer, unknown = self.kubelet.answer(member.pod), ""
            except KubeletHangError as hang:
                unknown = hang.message
        return SaidOfPod(reasons, answer, unknown, claims.counts, self._claimed(claims))

    def placed(self, member: GangPod) -> Candidate:
        """Return the node after scheduler and kubelet have accepted a pod."""
        used = dict(self.used)
        for resource, amount in self._request(member.pod).items():
            used[resource] = used.get(resource, 0) + amount
        with_claims = self.place.with_claims(member.pod.name, member.claims, self._by_claims(member.pod))
        return replace(
            self,
            used=used,
            pods=self.pods + 1,
            ports=self.ports | member.placing.ports,
            apart=self.apart | member.placing.apart,
            kubelet=self.kubelet.with_pod(member.pod) if self.kubelet else None,
            devices=with_claims.devices,
        )

    def with_claims_of(self, chosen: Candidate, member: GangPod) -> Candidate:
        """Return the node with the claims of a pod placed on the node `chosen`."""
        if self.devices is None or chosen.devices is None:
            return self
        shared = {claim.claim for claim in member.claims}
        devices = self.devices
        for claim in chosen.devices.held_claims:
            offers_device = any(device.device in self.devices.by_id for device in claim.devices)
            if (claim.name in shared or offers_device) and self.devices.claim(claim.name) is None:
                devices = devices.with_claim(claim)
        return self if devices is self.devices else replace(self, devices=devices)

    def without(self, running: RunningPod) -> Candidate | None:
        """Return the node after a pod has left; None where its kubelet is unknown."""
        if self.kubelet is None:
            return None
        freed = self._request(running.pod)
        used = {resource: amount - freed.get(resource, 0) for resource, amount in self.used.items()}
        return replace(
            self,
            used=used,
            pods=self.pods - 1,
            kubelet=self.kubelet.without(running),
            devices=self.devices.without(running.pod.name) if self.devices else None,
        )

    def not_seen(self, member: GangPod) -> tuple[str, ...]:
        """Return which of a pod's wishes cannot be judged here: labels, resources and claims."""
        read = member.placing.keys | ({member.domain} if member.domain else set())
        labels = () if self.labels_known else tuple(sorted(self._unknown_labels(read)))
        resources = [name for name in self._request(member.pod) if not self._is_counted(name)]
        unknown = self._claims(member).unknown
        claims = [f"whether its claims can be served ({'; '.join(unknown)})"] if unknown else []
        return (*(f"label {label}" for label in labels), *resources, *claims)

    @property
    def free_share(self) -> float:
        """The free share of CPUs and memory; the scheduler's ranking (LeastAllocated)."""
        shares = [
            max(0, total - self.used.get(resource, 0)) / total
            for resource in (CPU, MEMORY)
            if (total := self.allocatable.get(resource, 0))
        ]
        return sum(shares) / len(shares) if shares else 0.0

    def _kept_away(self, placing: Placing) -> Iterator[str]:
        """Yield why the scheduler would reject the node, in the order of its filters; without resources."""
        if self.cordoned and not placing.tolerates(CORDON):
            yield "it is cordoned"
        if placing.node_name not in (None, self.name):
            yield f"nodeName is {placing.node_name}"
        for taint in cordon_aside(self.taints) if self.cordoned else self.taints:
            if taint.get("effect") in KEEPS_AWAY and not placing.tolerates(taint):
                yield f"taint {shown_taint(taint)}"
        if not placing.selects(self.labels, self.name):
            unlike = placing.unlike(self.labels)
            yield f"its labels do not match the pod's nodeSelector or affinity{unlike and f': {unlike}'}"
        if lacking := [key for key in placing.spread if key not in self.labels]:
            yield f"it lacks the label {', '.join(lacking)}, by which the pod must be spread"
        if taken_ports := sorted(port for _, port in placing.ports & self.ports):
            yield f"host port {', '.join(map(str, taken_ports))} is taken"
        if placing.apart & self.apart:
            yield "a pod is there that its podAntiAffinity keeps it from"

    def _reasons(self, member: GangPod) -> Iterator[str]:
        placing = member.placing
        yield from self._kept_away(
            placing if self.labels_known else placing.without(self._unknown_labels(placing.keys))
        )
        if not self.allocatable:
            return  # no cluster, and the kubelet is not known
        if self.pods + 1 > self.most_pods:
            yield "Too many pods"
        by_claims = self._by_claims(member.pod)
        for resource, amount in self._request(member.pod).items():
            free = self.allocatable.get(resource, 0) - self.used.get(resource, 0)
            if amount and amount > free and resource not in by_claims and self._is_counted(resource):
                yield f"Insufficient {resource}"

    def _unknown_labels(self, keys: Iterable[str]) -> frozenset[str]:
        return frozenset(keys) - self.labels.keys() - self.lacks

    def has_claims(self, member: GangPod) -> bool:
        """Return whether claims serve any of a pod's requests here."""
        return bool(member.claims or self._by_claims(member.pod))

    def _by_claims(self, pod: Pod) -> Served:
        advertised = {resource for resource, amount in self.allocatable.items() if amount}
        return self.place.served(self._request(pod), advertised)

    def _claims(self, member: GangPod) -> Allocation:
        """Return whether the node's devices serve a pod's claims; answers are cached."""
        key = member.claims, tuple(sorted(self._by_claims(member.pod).items()))
        if key == ((), ()):
            return Allocation(True)
        answers: dict[Hashable, Allocation] = self.devices.answers if self.devices else {}
        if key not in answers:
            answers[key] = self.place.allocation(member.pod.name, member.claims, self._by_claims(member.pod))
        return answers[key]

    def _claimed(self, claims: Allocation) -> tuple[tuple[str, tuple[ClaimedDevice, ...]], ...]:
        """Return the devices that each claim gets here, with their NUMA nodes."""
        if not (claims.fits and claims.claims) or self.devices is None:
            return ()
        near = places_of(self.scenario.topology) if self.scenario else {}
        by_id = self.devices.by_id
        return tuple(
            (
                short_name(claim.name),
                tuple(claimed_device(by_id.get(one.device) or one.device, near) for one in claim.devices),
            )
            for claim in claims.claims
        )

    @property
    def place(self) -> Place:
        """The node as the allocation of claims sees it."""
        return Place(self.name, self.labels, self.devices, self.world)

    def another(self, name: str) -> Candidate:
        """Return a further node like this one, with its own devices."""
        return replace(self, name=name, devices=self.devices.of_another(name) if self.devices else None)

    def _is_counted(self, resource: str) -> bool:
        """Return whether a resource counts: as 0 where the Node lacks it; ephemeral storage if listed."""
        if resource == _STORAGE:
            return resource in self.allocatable
        if is_extended(resource) and not self.is_live and resource not in self.allocatable:
            return is_counted(resource, self.allocatable)  # else its plugin may be unknown
        return resource in (CPU, MEMORY) or in_pages(resource) or "/" in resource or is_extended(resource)

    def _request(self, pod: Pod) -> dict[str, int]:
        gates = self.kubelet.node.settings.gates if self.kubelet else None
        return request_of(pod, pod_level=gates.pod_level_resources if gates else True)


def candidates(
    machines: Iterable[GivenMachine],
    live: Mapping[str, LiveNode] | None,
    without: frozenset[str] = frozenset(),
    world: ClaimWorld = NOTHING_KNOWN,
) -> tuple[Candidate, ...]:
    """Return the cluster's nodes; without a cluster, the given machines without pods.

    Leaves out the pods with UIDs in `without`: those to place. `world` has the known claim objects; without
    slices there, those of the plans count.
    """
    machines_by_name = {machine.name: machine for machine in machines}
    kubelets: _Kubelets = {}
    if live is None:
        bare = (_empty(machine, kubelets) for machine in machines_by_name.values())
    else:
        bare = (
            _of_cluster(node, machines_by_name.get(name), without, kubelets, world)
            for name, node in sorted(live.items())
        )
    claims = [claim for claim in world.held_claims() if not claim.holders or claim.holders - without]
    return tuple(
        _with_devices(
            candidate,
            machines_by_name.get(candidate.name),
            live.get(candidate.name) if live else None,
            world,
            claims,
        )
        for candidate in bare
    )


def _with_devices(
    candidate: Candidate,
    machine: GivenMachine | None,
    live: LiveNode | None,
    world: ClaimWorld,
    claims: Sequence[HeldClaim],
) -> Candidate:
    """Return a node with the devices that serve claims: those of slices, else of its plan."""
    both = machine.world.merged(world) if machine and not world.is_whole else world
    if both.slices is None:
        return replace(candidate, world=both)
    planned = world.slices is None
    with_world = replace(candidate, world=both)
    if planned and live is not None and any(with_world.has_claims(pod.member) for pod in live.pods):
        why = "which devices its pods have is not known"
        return replace(with_world, world=replace(both, why_unknown=why))
    devices = devices_on(candidate.name, candidate.labels, both.slices, claims, both.rules, planned=planned)
    return replace(with_world, devices=devices)


def reconfigured(candidate: Candidate, settings: Mapping[str, Any]) -> Candidate | None:
    """Return a node with other settings, None if it refuses a pod that runs; raises KubeletConfigError."""
    if candidate.scenario is None or candidate.kubelet is None:
        return None
    changed = replace(candidate.scenario, config={**candidate.scenario.config, **settings}, state=None)
    node = changed.node()
    for running_pod in candidate.kubelet.running:
        if not node.admit(running_pod.pod).admitted:
            return None
    kubelet = KnownKubelet(node, candidate.kubelet.running)
    amounts = dict(candidate.allocatable)
    if CPU in amounts:  # a reservation takes some
        amounts[CPU] = node.allocatable.cpu_milli
    return replace(candidate, scenario=changed, kubelet=kubelet, allocatable=amounts)


def emptied(candidate: Candidate) -> Candidate | None:
    """Return a node like this one without pods; None where its kubelet is not known."""
    if candidate.scenario is None or candidate.kubelet is None:
        return None
    fresh = replace(candidate.scenario, state=None)
    kubelet = KnownKubelet(fresh.node(), ())
    return replace(
        candidate,
        scenario=fresh,
        kubelet=kubelet,
        used={},
        pods=0,
        ports=frozenset(),
        apart=frozenset(),
        cordoned=False,
        devices=candidate.devices.emptied() if candidate.devices else None,
    )


def _empty(machine: GivenMachine, kubelets: _Kubelets) -> Candidate:
    kubelet, doubt = _kubelet(machine, (), kubelets)
    node = kubelet.node if kubelet else None
    offered = node.allocatable if node else None
    amounts = {CPU: offered.cpu_milli, MEMORY: offered.memory_bytes, **offered.scalars} if offered else {}
    return Candidate(
        name=machine.name,
        labels={_HOSTNAME: machine.name, **present_labels(machine.labels)},
        lacks=frozenset(key for key, value in machine.labels.items() if value is None),
        labels_known=False,
        allocatable=amounts,
        is_live=False,
        most_pods=offered.pods if offered else 0,
        kubelet=kubelet,
        why_unknown=machine.why_unknown or doubt,
        scenario=machine.scenario,
        doubts=_notices(kubelet),
    )


def _of_cluster(
    node: LiveNode,
    machine: GivenMachine | None,
    without: frozenset[str],
    kubelets: _Kubelets,
    world: ClaimWorld,
) -> Candidate:
    pods = tuple(pod for pod in node.pods if pod.uid not in without)
    used: dict[str, int] = {}
    for pod in pods:
        for resource, amount in request_of(pod.member.pod, pod_level=True).items():
            used[resource] = used.get(resource, 0) + amount
    kubelet, doubt, why = None, "", "its machine is not given"
    if machine is not None:
        machine = _without_plugins(machine, node, world)
        kubelet, doubt = _kubelet(machine, pods, kubelets)
        why = machine.why_unknown or doubt
        doubt = doubt or _other_cpus(kubelet, node)
    return Candidate(
        name=node.name,
        labels=node.labels,
        labels_known=True,
        taints=node.taints,
        cordoned=node.cordoned,
        allocatable=node.allocatable,
        is_live=True,
        most_pods=node.allocatable.get(PODS, 0),
        used=used,
        pods=len(pods),
        ports=frozenset(port for pod in pods for port in pod.member.placing.ports),
        apart=frozenset(group for pod in pods for group in pod.member.placing.apart),
        kubelet=kubelet,
        why_unknown=why,
        scenario=machine.scenario if machine else None,
        doubts=(*((doubt,) if doubt and kubelet else ()), *_notices(kubelet)),
    )


def _notices(kubelet: KnownKubelet | None) -> tuple[str, ...]:
    notice = kubelet.node.settings.notice if kubelet else None
    return (notice,) if notice else ()


def _without_plugins(machine: GivenMachine, node: LiveNode, world: ClaimWorld) -> GivenMachine:
    """Return a machine without the device plugins that claims replace on its Node."""
    scenario = machine.scenario
    if scenario is None or scenario.devices is None:
        return machine
    plugins = {
        resource: devices
        for resource, devices in scenario.devices.items()
        if node.allocatable.get(resource) or world.class_of(resource) is None
    }
    if len(plugins) == len(scenario.devices):
        return machine  # which shares its scenario with others of its kind
    return replace(machine, scenario=replace(scenario, devices=plugins))


def _kubelet(
    machine: GivenMachine, pods: Sequence[LivePod], kubelets: _Kubelets
) -> tuple[KnownKubelet | None, str]:
    """Return the kubelet with its pods, and the assumptions; else None and the reason."""
    scenario = machine.scenario
    if scenario is None:
        return None, machine.why_unknown
    kind = _digest(
        kind_of(scenario),
        sorted((scenario.state or {}).items()),
        machine.given_devices,
        [(pod.name, pod.uid) if scenario.state else None for pod in pods],
        [pod.decided for pod in pods],
        [shape_of_pod(pod.member.pod) for pod in pods],
    )
    if kind not in kubelets:
        kubelets[kind] = _started_if_it_does(machine, scenario, pods)
    return kubelets[kind]


def _started_if_it_does(
    machine: GivenMachine, scenario: Scenario, pods: Sequence[LivePod]
) -> tuple[KnownKubelet | None, str]:
    """Return the kubelet with its pods, without its state files where they do not fit the machine."""
    try:
        return _started(machine, scenario, pods)
    except KubeletHangError as error:
        return None, str(error)
    except KubeletConfigError as error:
        if not scenario.state:
            return None, str(error)
        bare = replace(scenario, state=None)
        kubelet, _ = _started_if_it_does(replace(machine, scenario=bare, given_devices=None), bare, pods)
        return kubelet, f"its state files are not taken, and its pods placed again: {error.message}"


def kind_of(scenario: Scenario) -> bytes:
    """Return a key, equal for nodes whose kubelets answer alike without pods."""
    machine = scenario.topology
    return _digest(
        MachineInfo.from_topology(machine),
        machine.claim_drivers,
        dict(scenario.config),
        _anonymous(scenario.devices),
        scenario.version,
    )


def _digest(*values: object) -> bytes:
    return blake2b(pickle.dumps(values, pickle.HIGHEST_PROTOCOL), digest_size=32).digest()


def _anonymous(devices: Inventory | None) -> list[tuple[str, list[tuple[object, ...]]]] | None:
    """Return an inventory with numbers for its devices' names."""
    if devices is None:
        return None
    gpus: dict[str | None, int] = {}
    return [
        (
            resource,
            [
                (
                    None if device.numa_nodes is None else sorted(device.numa_nodes),
                    device.healthy,
                    device.part_of if device.part_of is None else gpus.setdefault(device.part_of, len(gpus)),
                    device.one_per_request,
                    [score for _, score in device.links],
                    device.sharing,
                )
                for device in listed
            ],
        )
        for resource, listed in sorted(devices.items())
    ]


def _started(machine: GivenMachine, scenario: Scenario, pods: Sequence[LivePod]) -> tuple[KnownKubelet, str]:
    """Return the kubelet with its pods: as in its state files, else readmitted in order.

    A running kubelet may have files that would stop its restart (kubernetes/kubernetes#141196).
    """
    node = replace(scenario, running=True).node()
    if machine.given_devices is not None:
        uids = {pod.name: pod.uid for pod in pods}
        node.device_manager.restore(
            {uids.get(pod, pod): devices for pod, devices in machine.given_devices.items()}
        )
    named_pods = [(pod, pod.member.pod.renamed(pod.uid)) for pod in pods]
    decided = {pod.uid for pod in pods if pod.decided}
    for name in [name for name in node.pods if name not in decided]:
        node.remove(name)
    restored = {
        pod.uid: named_pod
        for pod, named_pod in named_pods
        if scenario.state and pod.decided and node.has_given(named_pod)
    }
    for named_pod in restored.values():
        node.hold(named_pod)
    running, refused = [], []
    for pod, named_pod in named_pods:
        if pod.uid not in restored and not node.admit(named_pod).admitted:
            if not pod.decided:
                continue
            node.hold(named_pod)
            refused.append(pod.name)
        running.append(RunningPod(pod.name, named_pod))
    node.settle()
    return KnownKubelet(node, tuple(running)), _doubt(scenario, pods, refused)


def _doubt(scenario: Scenario, pods: Sequence[LivePod], refused: Sequence[str]) -> str:
    if refused:
        return f"admitted in their order, {len(refused)} of its pods would be refused: {refused[0]}"
    if pods and not scenario.state:
        return "its pods are placed again in their order; a snapshot with state files says where they are"
    return ""


def _other_cpus(kubelet: KnownKubelet | None, node: LiveNode) -> str:
    """Return a doubt about CPUs that the state file lacks, where the Node counts other CPUs; else ""."""
    manager = kubelet.node.cpu_manager if kubelet else None
    if kubelet is None or manager is None or not manager.unwritten:
        return ""
    counted = kubelet.node.allocatable.cpu_milli
    if node.allocatable.get(CPU) == counted:
        return ""
    cpus = format_cpulist(ids_of(manager.unwritten))
    return f"CPUs {cpus} count as free, which its state file does not have, and its Node has other CPUs"
