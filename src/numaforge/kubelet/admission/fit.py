"""How many pods of a shape fit on a node, what runs out first, what is left, and what would help."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from numaforge.kubelet.admission.claims import Claims
from numaforge.kubelet.admission.demand import Demand, Gates
from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.masks import bits, ids_of
from numaforge.kubelet.admission.node import Admission, Free, Node
from numaforge.kubelet.admission.pod import CPU, MEMORY, Container, Pod
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.kubelet.admission.scheduler import unschedulable, unserved
from numaforge.kubelet.admission.settings import NONE, STATIC
from numaforge.kubelet_minors.options import TOPOLOGY_MANAGER_POLICIES, TOPOLOGY_MANAGER_SCOPES
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import KubeletConfigError, NumaforgeError
from numaforge.lib.quantity import counted
from numaforge.machine.topology.model import NodeTopology

MOST_PODS = 5000
"""The most pods counted on one node. Kubernetes is tested with 110, and some sites run 500."""

MOST_IN_A_SHAPE = 64
"""The most devices for which the largest pod is sought; no machine has as many GPUs."""

MOST_NUMA_NODES = 12
"""The most NUMA nodes for which many shapes are tried, each in dozens of admissions: 0.5 s each on 19."""

# The resolution of the largest shape's memory; finer than GPU workloads need.
_MEMORY_GRAIN = 256 * 2**20


@dataclass(frozen=True)
class Scenario:
    """A node to fill: the arguments of `Node`."""

    topology: NodeTopology
    config: Mapping[str, Any]
    devices: Inventory | None = None
    state: Mapping[str, str] | None = None
    version: str | None = None
    claims: Claims | None = None
    running: bool = False

    def node(self) -> Node:
        return Node(
            self.topology,
            self.config,
            self.devices,
            state=self.state,
            running=self.running,
            version=self.version,
            claims=self.claims,
        )

    def configured(self, **changes: Any) -> "Scenario":
        """Return the same node with some settings of its kubelet configuration changed."""
        return replace(self, config={**self.config, **changes})

    def toggled(self, option: str, *, on: bool) -> dict[str, Any]:
        """Return the setting that turns an option of the CPU manager on, or omits it."""
        options = self.config.get("cpuManagerPolicyOptions") or {}
        other_options = {name: value for name, value in options.items() if name != option}
        return {"cpuManagerPolicyOptions": {**other_options, option: "true"} if on else other_options}


@dataclass(frozen=True)
class Fit:
    """One node filled with pods of one shape.

    `pods` is how many fit, `refusal` the answer to the first that did not, `free` what is then left. `error`
    is why the kubelet would not start under this policy, or would never answer one of the pods; in both
    cases nothing fits.
    """

    policy: str
    scope: str
    pods: int
    refusal: Admission | None = None
    free: Free | None = None
    error: str | None = None

    @property
    def runs_out(self) -> tuple[str, ...]:
        """The resource that has run out, or those that are not left on the same NUMA nodes."""
        return self.refusal.in_the_way if self.refusal else ()


@dataclass(frozen=True)
class Advice:
    """A change that makes room for more pods, and how many fit then."""

    change: str
    pods: int


@dataclass(frozen=True)
class LargestShape:
    """The largest pod with `devices` devices that still fits as often as the devices allow.

    `cpus` are whole CPUs; `memory_bytes` is the most that fits with them.
    """

    devices: int
    pods: int
    cpus: int
    memory_bytes: int


@dataclass(frozen=True)
class FitReport:
    """The answer for one node: as configured, under every other policy and scope, and what would help.

    `not_tried` is why no other shapes were tried, neither fewer CPUs nor the largest shape.
    """

    configured: Fit
    alternatives: tuple[Fit, ...]
    advice: tuple[Advice, ...]
    not_tried: str | None = None


def fit(scenario: Scenario, pod: Pod, refusal: Admission | None = None) -> FitReport:
    """Fill a node as configured and under each policy and scope, and look for changes that help.

    With the scheduler's `refusal` nothing is filled: no setting of a kubelet changes it. Raises
    KubeletConfigError where the kubelet would not start as configured.
    """
    if refusal is not None:
        settings = scenario.node().settings
        refused = Fit(settings.topology_policy, settings.topology_scope, 0, error=refusal.message)
        return FitReport(refused, (refused,), ())
    configured = fill(scenario, pod)
    alternatives = tuple(_alternatives(scenario, pod, configured))
    not_tried = _too_many_nodes(scenario)
    advice = sorted(
        [
            *_another_policy(configured, alternatives),
            *(() if not_tried else _fewer_cpus(scenario, pod, configured)),
            *_another_reservation(scenario, pod, configured),
        ],
        key=lambda item: -item.pods,
    )
    return FitReport(configured, alternatives, tuple(advice), not_tried)


def fill(scenario: Scenario, pod: Pod) -> Fit:
    """Admit pods of one shape until the first is refused.

    Raises KubeletConfigError where the kubelet would not start.
    """
    node = scenario.node()
    policy, scope = node.settings.topology_policy, node.settings.topology_scope
    pods = 0
    if refusal := unschedulable(node, pod):
        return Fit(policy, scope, 0, refusal, node.free())
    try:
        while (answer := unserved(node, pod) or node.admit(pod, f"{pod.name}-{pods}")).admitted:
            pods += 1
            if pods > MOST_PODS:
                raise NumaforgeError(
                    f"more than {MOST_PODS} pods of {pod.name} fit, and no more are counted",
                    where="maxPods",
                    remedy="lower maxPods in the kubelet's configuration, or let the pod ask for something",
                )
    except KubeletHangError as hang:
        return Fit(policy, scope, 0, error=f"pod {pods + 1}: {hang.message}")
    return Fit(policy, scope, pods, answer, node.free())


def largest_shapes(scenario: Scenario, resource: str) -> tuple[LargestShape, ...]:
    """Return the largest Guaranteed pod for each number of devices of `resource`, up to all of them or 64.

    For slices of GPUs only one device is considered. `pods` is 0 for a number of devices with which no pod is
    admitted. Empty where `fit` reports `not_tried`.
    """
    if _too_many_nodes(scenario):
        return ()
    total = min(scenario.node().allocatable.amount(resource), MOST_IN_A_SHAPE)
    if any(device.part_of for device in (scenario.devices or {}).get(resource, ())):
        total = min(total, 1)
    return tuple(_largest_shape(scenario, resource, count) for count in range(1, total + 1))


def _too_many_nodes(scenario: Scenario) -> str | None:
    nodes = len(scenario.topology.numa_nodes)
    if nodes <= MOST_NUMA_NODES:
        return None
    return f"no other shape was tried: {nodes} NUMA nodes, and many are tried on up to {MOST_NUMA_NODES} only"


def _largest_shape(scenario: Scenario, resource: str, devices: int) -> LargestShape:
    node = scenario.node()
    step = node.machine.cpus.cpus_per_core
    starts = [
        (fill(scenario, _shape(resource, devices, *start)).pods, start) for start in _smallest_spans(node)
    ]
    pods, (cpus, memory) = max(starts, key=lambda start: start[0])
    if pods == 0:
        return LargestShape(devices, 0, 0, 0)
    cpus = _largest(
        cpus,
        node.allocatable.cpu_milli // 1000,
        step,
        lambda more: _holds(scenario, _shape(resource, devices, more, memory), pods),
    )
    memory = _largest(
        memory,
        node.allocatable.memory_bytes,
        _MEMORY_GRAIN,
        lambda more: _holds(scenario, _shape(resource, devices, cpus, more), pods),
    )
    return LargestShape(devices, pods, cpus, memory)


def _smallest_spans(node: Node) -> list[tuple[int, int]]:
    """Return the fewest CPUs and bytes of memory that need one NUMA node, two, three, and so on.

    Under the policy restricted a pod whose devices span NUMA nodes is admitted only if its CPUs and its
    memory need as many, so the search cannot begin with the smallest pod alone.
    """
    step = node.machine.cpus.cpus_per_core
    cpus = sorted((members.bit_count() for members in node.machine.cpus.numa_nodes.values()), reverse=True)
    memory = [0] * len(cpus)
    if node.memory_manager:
        tables = node.memory_manager.nodes.values()
        memory = sorted((table.allocatable(MEMORY) for table in tables), reverse=True)
    return [
        (
            sum(cpus[:nodes]) // step * step + step,
            sum(memory[:nodes]) // _MEMORY_GRAIN * _MEMORY_GRAIN + _MEMORY_GRAIN,
        )
        for nodes in range(len(cpus))
    ]


def _alternatives(scenario: Scenario, pod: Pod, configured: Fit) -> Iterator[Fit]:
    """Yield the fit under each policy and scope, filling only once where both scopes request the same."""
    same = scopes_agree(pod, scenario.node().settings.gates)
    by_policy: dict[str, Fit] = {configured.policy: configured}
    for policy in TOPOLOGY_MANAGER_POLICIES:
        for scope in TOPOLOGY_MANAGER_SCOPES if policy != NONE else TOPOLOGY_MANAGER_SCOPES[:1]:
            if (policy, scope) == (configured.policy, configured.scope):
                yield configured
                continue
            if same and policy in by_policy:
                yield replace(by_policy[policy], scope=scope)
                continue
            changed = scenario.configured(topologyManagerPolicy=policy, topologyManagerScope=scope)
            try:
                by_policy[policy] = fill(changed, pod)
            except KubeletConfigError as refusal:
                by_policy[policy] = Fit(policy, scope, 0, error=refusal.message)
            yield by_policy[policy]


def scopes_agree(pod: Pod, gates: Gates) -> bool:
    """Whether a pod requests the same from the managers in both scopes, pod and container."""
    if len(pod.containers) != 1 or pod.has_pod_level_resources:
        return False
    demand = Demand.of(pod, gates)
    [container] = pod.containers
    return (demand.cpus[container.name], demand.memory[container.name]) == (
        demand.pod_cpus,
        demand.pod_memory,
    )


def _another_policy(configured: Fit, alternatives: tuple[Fit, ...]) -> Iterator[Advice]:
    """Yield the strictest policy that fits the most pods; `alternatives` go from loose to strict."""
    most = max(alternative.pods for alternative in alternatives)
    if most > configured.pods:
        best = [alternative for alternative in alternatives if alternative.pods == most][-1]
        scope = "" if best.policy == NONE else f", topologyManagerScope: {best.scope}"
        yield Advice(f"topologyManagerPolicy: {best.policy}{scope}", most)


def _fewer_cpus(scenario: Scenario, pod: Pod, configured: Fit) -> Iterator[Advice]:
    """Yield the smallest cut of the largest container's CPUs that makes room for another pod."""
    step = scenario.node().machine.cpus.cpus_per_core
    largest = max(pod.containers, key=lambda container: container.whole_cpus)
    # No container gets more CPUs than there are.
    most = min(largest.whole_cpus - 1, len(scenario.topology.online))
    for cpus in range(most // step * step, 0, -step):
        pods = fill(scenario, pod.asking(largest, {CPU: Fraction(cpus)})).pods
        if pods > configured.pods:
            fewer = counted(cpus, "CPU")
            yield Advice(f"{fewer} instead of {largest.whole_cpus} for the container {largest.name}", pods)
            return


def _another_reservation(scenario: Scenario, pod: Pod, configured: Fit) -> Iterator[Advice]:
    """Yield the reservation of one whole core on each NUMA node where it helps."""
    cpulist = None if scenario.state else whole_core_on_each_node(scenario.node())
    if cpulist is None:
        return
    pods = fill(scenario.configured(reservedSystemCPUs=cpulist), pod).pods
    if pods > configured.pods:
        yield Advice(f'reservedSystemCPUs: "{cpulist}" (a whole core on each NUMA node)', pods)


def whole_core_on_each_node(node: Node) -> str | None:
    """Return a reservation of a whole core on each NUMA node, None where in place or without effect."""
    if node.settings.cpu_policy != STATIC or node.cpu_manager is None:
        return None
    topology = node.machine.cpus
    reserved = 0
    for cpus in topology.numa_nodes.values():
        reserved |= topology.cores[topology.places[next(bits(cpus))].core]
    return None if reserved == node.cpu_manager.reserved else format_cpulist(ids_of(reserved))


def _shape(resource: str, devices: int, cpus: int, memory_bytes: int) -> Pod:
    limits = {CPU: Fraction(cpus), MEMORY: Fraction(memory_bytes), resource: Fraction(devices)}
    return Pod("shape", (Container("main", limits, limits),))


def _holds(scenario: Scenario, pod: Pod, pods: int) -> bool:
    node = scenario.node()
    try:
        return all(node.admit(pod, f"{pod.name}-{number}").admitted for number in range(pods))
    except KubeletHangError:
        return False


def _largest(least: int, most: int, step: int, holds: Callable[[int], bool]) -> int:
    """Return the largest `least` + n * `step` up to `most` that `holds`, given that `least` does."""
    larger = range(least + step, most + 1, step)
    return least + step * bisect_left(larger, True, key=lambda value: not holds(value))
