"""A node that admits and removes pods as its kubelet would."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, count
from operator import or_
from typing import Any, TypeVar

from numaforge.kubelet.admission.claims import Claims, JudgedClaims, NothingKnown
from numaforge.kubelet.admission.cpu_manager import CpuManager
from numaforge.kubelet.admission.demand import Demand
from numaforge.kubelet.admission.device_manager import Device, DeviceManager, read_inventory
from numaforge.kubelet.admission.hints import Hint, Opinion
from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.masks import ids_of
from numaforge.kubelet.admission.memory_manager import MemoryBlock, MemoryManager
from numaforge.kubelet.admission.pod import CPU, MEMORY, UNNAMED, Pod, pod_limits
from numaforge.kubelet.admission.predicates import (
    PODS,
    NodeAllocatable,
    check_fit,
    check_sidecars,
    counts,
    request_of,
)
from numaforge.kubelet.admission.refusal import PodRejectedError
from numaforge.kubelet.admission.settings import STATIC, Settings
from numaforge.kubelet.admission.topology_manager import HintProvider, Opinions, TopologyManager
from numaforge.kubelet.checkpoints import (
    CPU_STATE_FILE,
    MEMORY_STATE_FILE,
    CheckpointError,
    restore_cpu_state,
    restore_memory_state,
)
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.errors import KubeletConfigError, NumaforgeError
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.machine.topology.holders import DEVICE_STATE, read_device_state
from numaforge.machine.topology.model import CpuSet, NodeTopology

State = TypeVar("State")

UNSCHEDULABLE = "Unschedulable"  # the scheduler's reason; all others are the kubelet's


@dataclass(frozen=True)
class Admission:
    """The kubelet's answer for one pod, and what it allocated.

    `reason` and `message` are the admit handlers' own; `in_the_way` names the resource that has run out, or
    the resources that are available but not on the same NUMA nodes. `cpus`, `memory`, `devices` and `hint`
    are by container name: the exclusive CPUs (none for containers on the shared pool), the blocks that the
    memory manager recorded, the device ids by resource, and the merged topology hint. `choices` are the sets
    of devices that are equal for their plugin, those of `devices` first; `may_crash` the resources whose
    plugin may crash instead. A refused pod only has the hints found until then. `opinions` are the managers'
    opinions before allocation, where requested.
    """

    name: str
    admitted: bool
    qos: str
    reason: str | None = None
    message: str | None = None
    in_the_way: tuple[str, ...] = ()
    cpus: Mapping[str, CpuSet] = field(default_factory=dict)
    memory: Mapping[str, tuple[MemoryBlock, ...]] = field(default_factory=dict)
    devices: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    choices: Mapping[str, Mapping[str, tuple[tuple[str, ...], ...]]] = field(default_factory=dict)
    may_crash: tuple[str, ...] = ()
    hint: Mapping[str, Hint] = field(default_factory=dict)
    opinions: Mapping[str, tuple[Opinion, ...]] = field(default_factory=dict)

    @property
    def aligned(self) -> bool:
        """Whether no merged hint is wider than necessary; True where there are none."""
        return all(hint.preferred for hint in self.hint.values())

    @property
    def status_message(self) -> str | None:
        """The message as the pod's status shows it."""
        from_scheduler = self.message is None or self.reason == UNSCHEDULABLE
        return self.message if from_scheduler else f"Pod was rejected: {self.message}"


@dataclass(frozen=True)
class FreeOnNumaNode:
    """What is left on one NUMA node; `cpus` and `memory_bytes` are None where their manager does not run.

    `cpus` are available for exclusive use; `devices` counts by resource. `hugepages` are bytes by
    resource, for the sizes that the memory manager has there.
    """

    id: int
    cpus: CpuSet | None
    memory_bytes: int | None
    devices: Mapping[str, int]
    hugepages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Free:
    """What is left for pods: thousandths of a CPU, bytes, devices by resource; and where."""

    cpu_milli: int
    memory_bytes: int
    devices: Mapping[str, int]
    numa_nodes: tuple[FreeOnNumaNode, ...]


class Node:
    """The admission of one node: machine, kubelet configuration, devices, and the pods admitted so far.

    `topology` is a NodeTopology (or a MachineInfo), `config` an effective KubeletConfiguration as a mapping,
    `devices` an inventory or input of `read_inventory`; without it the machine's GPUs are offered as their
    vendor's plugin does. `state` maps state file names to their texts and starts the node from them: pods
    in them are known by UID, count with what they hold, and can be removed. `running`: the files are those of
    a running kubelet, which may have some that it would not start with. `predicates=False` skips the resource
    predicates. `version` is the kubelet's; without it the newest known rules apply. `claims` answers for
    pods' claims, which only the scheduler serves; without it the answer is unknown.

    As in the kubelet, admitting the next pod releases what removed or refused pods held; `settle` does it at
    once. Raises KubeletConfigError for a configuration or a state that the kubelet would not start
    with.
    """

    def __init__(
        self,
        topology: NodeTopology | MachineInfo,
        config: Mapping[str, Any],
        devices: Mapping[str, Any] | None = None,
        *,
        state: Mapping[str, str] | None = None,
        running: bool = False,
        predicates: bool = True,
        version: KubeletVersion | str | None = None,
        claims: Claims | None = None,
    ) -> None:
        self.machine = topology if isinstance(topology, MachineInfo) else MachineInfo.from_topology(topology)
        kubelet_version = KubeletVersion.parse(version) if isinstance(version, str) else version
        self.settings = Settings.from_config(config, self.machine, kubelet_version)
        self.device_manager = DeviceManager(
            _inventory(topology, devices), self.machine.node_mask, self.settings.minor
        )
        self.cpu_manager: CpuManager | None = None
        self.memory_manager: MemoryManager | None = None
        providers: list[HintProvider] = [self.device_manager]
        if self.settings.cpu_policy == STATIC:
            self.cpu_manager = CpuManager(self.machine.cpus, self.settings)
            providers.append(self.cpu_manager)
        if self.settings.memory_policy == "Static":
            self.memory_manager = MemoryManager(
                self.machine, self.settings.reserved_memory, self.settings.minor
            )
            providers.append(self.memory_manager)
        self.allocatable = NodeAllocatable.of(self.machine, self.settings, self.device_manager.allocatable())
        self._topology_manager = TopologyManager(self.machine, self.settings, providers)
        self._claims = claims or NothingKnown()
        self._predicates = predicates
        self._requests: dict[str, Mapping[str, int]] = {}
        self._admitted: dict[str, Pod] = {}
        self._returning: set[str] = set()
        self._restore(state or {}, running=running)

    def judged_claims(self, pod: Pod) -> JudgedClaims:
        """Return whether the node's devices serve a pod's claims beside the pods already here."""
        return self._claims.without(pod.name).judge(pod, self._request(pod), self._advertised)

    @property
    def _advertised(self) -> frozenset[str]:
        """The resources served by device plugins rather than by claims."""
        plugins = self.device_manager.plugins
        return frozenset(resource for resource in plugins if self.allocatable.amount(resource))

    def _request(self, pod: Pod) -> dict[str, int]:
        return request_of(pod, pod_level=self.settings.gates.pod_level_resources)

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of the admitted pods, in the order of their admission."""
        return tuple(self._requests)

    def admit(
        self, pod: Pod | Mapping[str, Any], name: str | None = None, *, explained: bool = False
    ) -> Admission:
        """Put a pod (or its manifest) through the admit handlers, and keep it if they agree.

        With `explained` the answer has the managers' opinions. A manifest without a name gets one. A pod that
        is already admitted, or held in the state files, is admitted again as after a restart of the kubelet.
        Raises NumaforgeError for a manifest that is not a pod.
        """
        if not isinstance(pod, Pod):
            pod = Pod.from_manifest(pod, name)
            if pod.name == UNNAMED:
                numbered = (f"{UNNAMED}-{number}" for number in count())
                pod = pod.renamed(next(name for name in numbered if name not in self._requests))
        elif name is not None:
            pod = pod.renamed(name)
        if not self._returning:
            self._collect({*self._requests})
        self._returning.discard(pod.name)
        demand = Demand.of(pod, self.settings.gates)
        request = self._request(pod)
        self._claims = self._claims.without(pod.name)
        requests = [request_of for key, request_of in self._requests.items() if key != pod.name]
        hints: dict[str, Hint] = {}
        opinions: Opinions | None = {} if explained else None
        try:
            self._topology_manager.admit(demand, hints, opinions)
            if not self.settings.gates.sidecars:
                check_sidecars(pod)
            if self._predicates:
                check_fit(request, requests, self.allocatable)
        except PodRejectedError as refusal:
            self._requests.pop(pod.name, None)
            self._admitted.pop(pod.name, None)
            return Admission(
                name=pod.name,
                admitted=False,
                qos=demand.qos,
                reason=refusal.reason,
                message=refusal.message,
                in_the_way=refusal.resources,
                hint=hints,
                opinions=opinions or {},
            )
        self._requests[pod.name] = request
        self._admitted[pod.name] = pod
        self._claims = self._claims.with_pod(pod, request, self._advertised)
        return Admission(
            name=pod.name,
            admitted=True,
            qos=demand.qos,
            cpus=self._cpus_of(pod.name),
            memory=dict(self.memory_manager.assignments.get(pod.name, {})) if self.memory_manager else {},
            devices=self.device_manager.devices_of(pod.name),
            choices=self.device_manager.choices_of(pod.name),
            may_crash=self.device_manager.may_crash_for(pod.name),
            hint=hints,
            opinions=opinions or {},
        )

    def hold(self, pod: Pod) -> None:
        """Count a running pod with what it holds in the state files; nothing is allocated.

        Its name in the files is its UID.
        """
        self._requests[pod.name] = self._request(pod)

    def restart_with(self, pods: Iterable[str]) -> None:
        """Release nothing until these pods were admitted again, as a kubelet that starts with them.

        pkg/kubelet/kubelet.go, syncLoopIteration: a source is ready once its first pods were handled.
        """
        self._returning = {*pods}

    def has_given(self, pod: Pod) -> bool:
        """Whether a pod has all its allocations; in state files older than the pod they are missing.

        Devices are allocated first, so a pod with its own CPUs or memory has its devices.
        """
        demand = Demand.of(pod, self.settings.gates)
        managers = [manager for manager in (self.cpu_manager, self.memory_manager) if manager]
        if not all(manager.has_given(demand) for manager in managers):
            return False
        if any(pod.name in manager.assignments for manager in (*managers, self.device_manager)):
            return True
        return not any(pod_limits(pod).get(resource) for resource in self.device_manager.plugins)

    def fork(self) -> "Node":
        """Return an independent copy of the node in the same state."""
        same = (
            self.machine,
            self.machine.cpus,
            self.machine.nodes,
            self.settings,
            self.allocatable,
            self._claims,
        )
        listed = (plugin.devices for plugin in self.device_manager.plugins.values())
        return deepcopy(self, {id(shared): shared for shared in (*same, *listed, *self._admitted.values())})

    def short_of(self, pod: Pod) -> tuple[str, ...]:
        """Return the resources of which too little is left for a pod, as the scheduler counts them."""
        request = self._request(pod)
        requests = [request_of for name, request_of in self._requests.items() if name != pod.name]
        full = (PODS,) if len(requests) + 1 > self.allocatable.pods else ()
        return full + tuple(
            resource
            for resource, amount in request.items()
            if amount
            and counts(resource, self.allocatable)
            and amount
            > self.allocatable.amount(resource) - sum(request_of.get(resource, 0) for request_of in requests)
        )

    def remove(self, name: str) -> None:
        """Remove a pod. Raises NumaforgeError for one that is not here."""
        if name not in self._requests:
            raise NumaforgeError(
                f"no pod {name!r} is admitted on this node", remedy=f"admitted: {', '.join(self.pods)}"
            )
        del self._requests[name]
        self._returning.discard(name)
        self._admitted.pop(name, None)
        self._claims = self._claims.without(name)

    def start(self, name: str) -> None:
        """Start an admitted pod's app containers: its init containers release what they alone held.

        Raises NumaforgeError for a pod that was not admitted here.
        """
        if name not in self._admitted:
            raise NumaforgeError(f"no pod {name!r} was admitted on this node")
        if self.memory_manager:
            self.memory_manager.finish_init_containers(self._admitted[name])

    def register(self, devices: Mapping[str, Any]) -> None:
        """Register a device plugin after the kubelet has started.

        Until then its resource is ignored: pods that ask for it are admitted without devices, as after a
        reboot (kubernetes/kubernetes#125579).
        """
        self.device_manager.register(read_inventory(devices))
        self.allocatable = NodeAllocatable.of(self.machine, self.settings, self.device_manager.allocatable())

    def settle(self) -> None:
        """Release at once what removed and refused pods held."""
        self._collect({*self._requests})

    def free(self) -> Free:
        """Return what is left after releasing what removed and refused pods held."""
        self.settle()
        requested = dict.fromkeys((CPU, MEMORY, *self.device_manager.plugins), 0)
        for request in self._requests.values():
            for resource in requested:
                requested[resource] += request.get(resource, 0)
        amounts = {resource: self.allocatable.amount(resource) - used for resource, used in requested.items()}
        return Free(
            cpu_milli=amounts.pop(CPU),
            memory_bytes=amounts.pop(MEMORY),
            devices=amounts,
            numa_nodes=tuple(self._free_on(node.id) for node in self.machine.nodes),
        )

    def _free_on(self, numa_node: int) -> FreeOnNumaNode:
        cpus = self.machine.cpus.numa_nodes.get(numa_node, 0)
        memory = self.memory_manager.nodes[numa_node] if self.memory_manager else None
        tables = memory.tables if memory else {}
        return FreeOnNumaNode(
            id=numa_node,
            cpus=ids_of(self.cpu_manager.available & cpus) if self.cpu_manager else None,
            memory_bytes=memory.free(MEMORY) if memory else None,
            devices=self.device_manager.free_near(numa_node),
            hugepages={
                resource: table.free
                for resource, table in tables.items()
                if resource != MEMORY and table.allocatable
            },
        )

    def _collect(self, active: set[str]) -> None:
        for manager in self._topology_manager.providers:
            manager.collect(active)

    def _cpus_of(self, pod: str) -> dict[str, CpuSet]:
        by_container = self.cpu_manager.assignments.get(pod, {}) if self.cpu_manager else {}
        return {container: ids_of(cpus) for container, cpus in by_container.items()}

    def _restore(self, state: Mapping[str, str], *, running: bool) -> None:
        unknown = set(state) - {CPU_STATE_FILE, MEMORY_STATE_FILE, DEVICE_STATE}
        if unknown:
            raise KubeletConfigError(f"{sorted(unknown)[0]!r} is not one of the kubelet's state files")
        if CPU_STATE_FILE in state:
            cpus = self._read(restore_cpu_state, CPU_STATE_FILE, state, self.settings.cpu_policy)
            if self.cpu_manager:
                self.cpu_manager.restore(cpus, running=running)
        if MEMORY_STATE_FILE in state:
            memory = self._read(restore_memory_state, MEMORY_STATE_FILE, state, self.settings.memory_policy)
            if self.memory_manager:
                self.memory_manager.restore(memory, running=running)
        if DEVICE_STATE in state:
            self.device_manager.restore(read_device_state(state[DEVICE_STATE]))
        self._requests = self._held_requests()

    def _read(self, restore: Callable[..., State], name: str, state: Mapping[str, str], policy: str) -> State:
        """Return the state in a file, or raise KubeletConfigError with the kubelet's message."""
        version, by_pod = KubeletVersion(self.settings.minor), self.settings.gates.pod_level_resource_managers
        try:
            return restore(state[name], policy, version, f"{ROOT_DIR}/{name}", by_pod=by_pod)
        except CheckpointError as error:
            raise KubeletConfigError(str(error), where=name) from error

    def _held_requests(self) -> dict[str, Mapping[str, int]]:
        """Return the requests of pods from state files: what they hold, as there is no manifest."""
        requests: dict[str, Counter[str]] = defaultdict(Counter)
        for pod, cpus in (self.cpu_manager.assignments if self.cpu_manager else {}).items():
            requests[pod][CPU] = 1000 * reduce(or_, cpus.values(), 0).bit_count()
        for pod, containers in (self.memory_manager.assignments if self.memory_manager else {}).items():
            sizes = requests[pod]
            for block in chain.from_iterable(containers.values()):
                sizes[block.resource] += block.bytes
        for pod in self.device_manager.assignments:
            counts = requests[pod]
            for by_resource in self.device_manager.devices_of(pod).values():
                counts.update({resource: len(ids) for resource, ids in by_resource.items()})
        return dict(requests)


def _inventory(
    topology: NodeTopology | MachineInfo, devices: Mapping[str, Any] | None
) -> dict[str, tuple[Device, ...]]:
    if devices is not None:
        return read_inventory(devices)
    return inventory_of(topology) if isinstance(topology, NodeTopology) else {}
