"""The CPU manager: which containers get exclusive CPUs, and which CPUs.

pkg/kubelet/cm/cpumanager/policy_static.go of kubelet 1.28 to 1.37.
"""

from collections.abc import Collection

from numaforge.kubelet.admission.assignment import AssignmentError, take
from numaforge.kubelet.admission.demand import Demand, why_pool_is_empty
from numaforge.kubelet.admission.hints import NO_HINTS, Hint, Hints, HintsByResource
from numaforge.kubelet.admission.machine import CpuTopology
from numaforge.kubelet.admission.masks import (
    bits,
    fewest,
    ids_of,
    mask_of,
    of_size,
    refuse_endless,
    subsets,
    sums,
)
from numaforge.kubelet.admission.pod import CPU, Container
from numaforge.kubelet.admission.refusal import (
    EMPTY_POD_SHARED_POOL,
    SMT_ALIGNMENT,
    PodRejectedError,
    unexpected,
)
from numaforge.kubelet.admission.settings import Settings
from numaforge.kubelet.checkpoints import CpuState, check_cpu_state
from numaforge.lib.errors import KubeletConfigError

# From this minor on a refusal says that no core is free; before, that the request is no multiple of a core.
_FIRST_MINOR_OF_NO_FREE_CORES = 32
# From this minor on a container keeps the CPUs that it has, even parts of cores.
FIRST_MINOR_KEEPING_HALVES = 37


class CpuManager:
    """The static policy and its state; CPU sets are bitmasks.

    `default` is the shared pool (defaultCpuSet), `assignments` maps pod -> container -> exclusive CPUs,
    `pods` maps pod -> the CPUs of a pod that is managed as one unit. `unwritten` are CPUs of the shared pool
    that were missing from the state file of a running kubelet.
    """

    def __init__(self, topology: CpuTopology, settings: Settings) -> None:
        self.topology = topology
        self.options = settings.cpu_options
        self._minor = settings.minor
        self.reserved = self._reserve(settings)
        self.reserved_cores = 0
        for cpu in bits(self.reserved):
            self.reserved_cores |= topology.cores[topology.places[cpu].core]
        self.default = topology.cpus & ~self.reserved if self.options.strict_reservation else topology.cpus
        self.assignments: dict[str, dict[str, int]] = {}
        self.pods: dict[str, int] = {}
        self.unwritten = 0
        self._reusable: tuple[str, int] = ("", 0)

    def restore(self, state: CpuState, *, running: bool = False) -> None:
        """Restore a checkpoint, or raise KubeletConfigError where the policy would not start with it.

        The checkpoint of a `running` kubelet need not be one that it would start with.
        """
        complaint = check_cpu_state(
            state,
            ids_of(self.topology.cpus),
            ids_of(self.reserved),
            strict=self.options.strict_reservation,
            running=running,
        )
        if complaint:
            raise KubeletConfigError(complaint)
        if not state.known_cpus:
            return
        self.default = mask_of(state.default)
        self.assignments = {
            pod: {container: mask_of(cpus) for container, cpus in containers.items()}
            for pod, containers in state.assignments.items()
        }
        self.pods = {pod: mask_of(cpus) for pod, cpus in state.pods.items()}
        if running:
            # Between the kubelet's two writes, CPUs being allocated or released are in neither place
            # (allocateCPUs, RemoveContainer).
            kept_back = self.reserved if self.options.strict_reservation else 0
            self.unwritten = self.topology.cpus & ~kept_back & ~mask_of(state.known_cpus)
            self.default |= self.unwritten

    def has_given(self, demand: Demand) -> bool:
        """Whether a pod already has all its exclusive CPUs."""
        if demand.by_pod:
            return not demand.pod_cpus or demand.pod.name in self.pods
        assigned = self.assignments.get(demand.pod.name, {})
        return not demand.pinned or all(name in assigned for name, cpus in demand.cpus.items() if cpus)

    @property
    def available(self) -> int:
        """The CPUs available to exclusive requests."""
        return self.default & ~self.reserved

    def collect(self, active: Collection[str]) -> None:
        """Release the CPUs of pods that are no longer active (removeStaleState)."""
        for pod in [pod for pod in self.assignments if pod not in active]:
            by_container = self.assignments.pop(pod)
            # A pod managed as one unit releases its own set: with uneven SMT its containers may hold CPUs
            # outside it (kubernetes/kubernetes#140495).
            for cpus in [self.pods.pop(pod)] if pod in self.pods else by_container.values():
                self.default |= cpus

    def container_hints(self, demand: Demand, container: Container) -> HintsByResource:
        """Return the hints for one container (GetTopologyHints)."""
        requested = demand.cpus[container.name]
        if requested == 0 or not demand.pinned:
            return {}
        assigned = self.assignments.get(demand.pod.name, {}).get(container.name)
        if assigned is not None:
            return {
                CPU: self._hints(assigned, 0, requested) if assigned.bit_count() == requested else NO_HINTS
            }
        return {CPU: self._hints(self.available, self._reusable_by(demand), requested)}

    def pod_hints(self, demand: Demand) -> HintsByResource:
        """Return the hints for a pod as a whole (GetPodTopologyHints)."""
        requested = demand.pod_cpus
        if requested == 0 or not demand.pinned:
            return {}
        if demand.by_pod and _why_pool_is_empty(demand) is not None:
            return {CPU: NO_HINTS}
        by_container = self.assignments.get(demand.pod.name, {})
        assigned = 0
        for container in demand.pod.containers:
            if container.name in by_container:
                if by_container[container.name].bit_count() != demand.cpus[container.name]:
                    return {CPU: NO_HINTS}
                assigned |= by_container[container.name]
        if assigned.bit_count() == requested:
            return {CPU: self._hints(assigned, 0, requested)}
        return {CPU: self._hints(self.available, self._reusable_by(demand) | assigned, requested)}

    def allocate(self, demand: Demand, container: Container, hint: Hint) -> None:
        """Allocate a container's CPUs, or raise PodRejectedError (Allocate)."""
        requested = demand.cpus[container.name]
        if requested == 0 or not demand.pinned:
            return
        assigned = self.assignments.get(demand.pod.name, {}).get(container.name)
        if assigned is None or self._minor < FIRST_MINOR_KEEPING_HALVES:
            self._enforce_smt_alignment(requested)
        if assigned is None:
            assigned = self._allocate_cpus(requested, hint, self._reusable_by(demand))
            self.assignments.setdefault(demand.pod.name, {})[container.name] = assigned
        reusable = self._reusable_by(demand)
        reuse = container.init and not container.restartable
        self._reusable = (demand.pod.name, reusable | assigned if reuse else reusable & ~assigned)

    def allocate_pod(self, demand: Demand, hint: Hint) -> None:
        """Allocate one set of CPUs to a pod with pod-level resources, and divide it (AllocatePod)."""
        if demand.pod_cpus == 0:
            return
        empty = _why_pool_is_empty(demand)
        if empty is not None:
            raise PodRejectedError(EMPTY_POD_SHARED_POOL, empty, CPU)
        self._enforce_smt_alignment(demand.pod_cpus)
        cpus = self._allocate_cpus(demand.pod_cpus, hint, 0)
        self.pods[demand.pod.name] = cpus
        self.assignments[demand.pod.name] = self._share_out(demand, cpus)

    def _share_out(self, demand: Demand, cpus: int) -> dict[str, int]:
        sidecars = 0
        shares: dict[str, int] = {}
        for container in demand.pod.init_containers:
            requested = demand.cpus[container.name]
            if requested:
                shares[container.name] = self._take(cpus & ~sidecars, requested)
                if container.restartable:
                    sidecars |= shares[container.name]
            elif not container.restartable:
                shares[container.name] = cpus & ~sidecars
        pool = cpus & ~sidecars
        for container in demand.pod.app_containers:
            if demand.cpus[container.name]:
                shares[container.name] = self._take(pool, demand.cpus[container.name])
                pool &= ~shares[container.name]
        return {container.name: shares.get(container.name, pool) for container in demand.pod.containers}

    def _reserve(self, settings: Settings) -> int:
        """Return the reserved CPUs: the configured set, else those that the policy would take first."""
        count = settings.reserved_cpu_count
        try:
            return settings.explicit_reserved_cpus or take(
                self.topology, self.options, self.topology.cpus, count, self._minor
            )
        except AssignmentError as error:
            raise KubeletConfigError(
                f"[cpumanager] unable to reserve the required amount of CPUs (size of  did not equal {count})"
            ) from error

    def _reusable_by(self, demand: Demand) -> int:
        pod, cpus = self._reusable
        return cpus if pod == demand.pod.name else 0

    def _enforce_smt_alignment(self, requested: int) -> None:
        if not self.options.full_pcpus_only:
            return
        per_core = self.topology.cpus_per_core
        free = (self.default & ~self.reserved_cores).bit_count()
        unnamed = requested > free == 0 and self._minor < _FIRST_MINOR_OF_NO_FREE_CORES
        if requested % per_core or unnamed:
            raise PodRejectedError(
                SMT_ALIGNMENT,
                f"SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {per_core}",
                CPU,
            )
        if requested > free:
            raise PodRejectedError(
                SMT_ALIGNMENT,
                "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
                f"{free}, requested CPUs = {requested}, CPUs per core = {per_core}",
                CPU,
            )

    def _allocate_cpus(self, requested: int, hint: Hint, reusable: int) -> int:
        offered = self.available | reusable
        allocated = 0
        if hint.numa is not None:
            aligned = self._aligned(hint.numa) & offered
            allocated = self._take(aligned, min(requested, aligned.bit_count()))
        allocated |= self._take(offered & ~allocated, requested - allocated.bit_count())
        self.default &= ~allocated
        return allocated

    def _aligned(self, numa: int) -> int:
        nodes = list(bits(numa))
        if not self.options.align_by_socket:
            return self.topology.cpus_in_numa_nodes(nodes)
        cpus = 0
        for socket in self.topology.sockets_in_numa_nodes(nodes):
            cpus |= self.topology.sockets[socket]
        return cpus

    def _take(self, offered: int, count: int) -> int:
        try:
            return take(self.topology, self.options, offered, count, self._minor)
        except AssignmentError as error:
            raise unexpected(error.message, CPU) from error

    def _hints(self, available: int, reusable: int, requested: int) -> Hints:
        """Return a hint for each set of NUMA nodes with enough free CPUs (generateCPUTopologyHints).

        The narrowest size counts all CPUs, used or not: a request that would fit a NUMA node only if it were
        empty has no preferred hint (kubernetes/kubernetes#84597).
        """
        nodes, every = self.topology.numa_nodes, self.topology.numa_mask
        refuse_endless(every)
        offered = available | reusable
        free = {node: (cpus & offered).bit_count() for node, cpus in nodes.items()}
        must_include = mask_of(node for node, cpus in nodes.items() if cpus & reusable)
        size = min(fewest((cpus.bit_count() for cpus in nodes.values()), requested), len(nodes))

        def masks() -> list[int]:
            return [
                mask
                for mask, count in zip(subsets(every), sums(every, free), strict=True)
                if count >= requested and mask & must_include == must_include
            ]

        if self.options.align_by_socket:
            return Hints([mask for mask in masks() if self.prefers(mask, size)], masks)
        narrow = [
            mask
            for mask in of_size(every, size)
            if mask & must_include == must_include and sum(free[node] for node in bits(mask)) >= requested
        ]
        return Hints(narrow, masks)

    def prefers(self, mask: int, size: int) -> bool:
        """Whether a hint is preferred for a request that `size` NUMA nodes could serve."""
        if mask.bit_count() == size or not self.options.align_by_socket:
            return mask.bit_count() == size
        nodes_per_socket = self.topology.num_numa_nodes // self.topology.num_sockets
        sockets = len(self.topology.sockets_in_numa_nodes(bits(mask)))
        return nodes_per_socket > 0 and sockets == -(-size // nodes_per_socket)


def _why_pool_is_empty(demand: Demand) -> str | None:
    cpus = {name: {CPU: count} if count else {} for name, count in demand.cpus.items()}
    return why_pool_is_empty(demand.pod, {CPU: demand.pod_cpus}, cpus)
