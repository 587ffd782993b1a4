"""The device manager: which devices of a plugin a container gets.

pkg/kubelet/cm/devicemanager of kubelet 1.28 to 1.37.
"""

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from numaforge.kubelet.admission.demand import Demand
from numaforge.kubelet.admission.hint_work import FIRST_MINOR_OF_NARROW_HINTS
from numaforge.kubelet.admission.hints import NO_HINTS, Hint, Hints, HintsByResource
from numaforge.kubelet.admission.masks import (
    bits,
    fewest,
    lowest_bits,
    mask_of,
    of_size,
    refuse_endless,
    subsets,
    unions,
)
from numaforge.kubelet.admission.pod import Container, Quantities, pod_limits
from numaforge.kubelet.admission.preferred import PACKED, ByLinks, ByReplicas, Preference, Preferred
from numaforge.kubelet.admission.refusal import unexpected
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.ordering import grouped

_CRASHED = (
    "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unavailable desc = error "
    "reading from server: EOF"
)


class DeviceError(NumaforgeError):
    """A document does not describe devices."""


class Device(NamedTuple):
    """A device that a plugin advertises; `numa_nodes` is None where the plugin publishes no topology.

    A node of -1, which AMD's plugin publishes, is in no set of NUMA nodes: the device has topology, and no
    hint ever covers it.
    `part_of` is the PCI address of the GPU of which it is a slice or a replica; None for a whole device.
    `one_per_request`: the plugin rejects containers that request more than one. `links` has the score of the
    links to each other GPU by id, by which NVIDIA's plugin chooses GPUs; empty for other devices. `sharing`
    is its policy for replicas and MIG devices, None for other devices.
    """

    id: str
    numa_nodes: frozenset[int] | None
    healthy: bool = True
    part_of: str | None = None
    one_per_request: bool = False
    links: tuple[tuple[str, int], ...] = ()
    sharing: str | None = None


Inventory = Mapping[str, Sequence[Device]]


def read_inventory(document: Mapping[str, Any]) -> dict[str, tuple[Device, ...]]:
    """Parse devices by resource name.

    Each resource lists its devices: a NUMA node (`0`), several (`[0, 1]`), null for none, or a mapping with
    `id`, `numa_nodes` and `healthy`. Ids default to the position in the list. Raises DeviceError for anything
    else.
    """
    if not isinstance(document, Mapping):
        raise DeviceError(
            "devices must map resource names to lists", remedy='for example {"nvidia.com/gpu": [0, 0, 1, 1]}'
        )
    return {str(resource): _read_devices(entries, str(resource)) for resource, entries in document.items()}


class _Plugin:
    """The devices of one resource as bitmasks over their positions, and the allocated ones."""

    def __init__(self, devices: Sequence[Device], known_nodes: int, minor: int) -> None:
        self.devices = tuple(devices)
        self.healthy = mask_of(i for i, device in enumerate(self.devices) if device.healthy)
        self.allocated = 0
        self.without_topology = mask_of(i for i, device in enumerate(devices) if device.numa_nodes is None)
        self.of_node: dict[int, int] = {}
        for index, device in enumerate(self.devices):
            for node in device.numa_nodes or ():
                if node >= 0:
                    self.of_node[node] = self.of_node.get(node, 0) | 1 << index
        self.has_topology = any(device.numa_nodes for device in self.devices)
        hosts = mask_of(self.of_node) & known_nodes
        self.nodes = hosts if hosts and minor >= FIRST_MINOR_OF_NARROW_HINTS else known_nodes
        self.preference = _preference(self.devices)

    def preferred(self, available: int, required: int, size: int) -> Preferred:
        """Return what the plugin may prefer; the first in the list where it has no preference."""
        if self.preference is None:
            return Preferred((required | lowest_bits(available & ~required, size - required.bit_count()),))
        return self.preference.of(available, required, size)

    def in_nodes(self, numa: int) -> int:
        devices = 0
        for node in bits(numa):
            devices |= self.of_node.get(node, 0)
        return devices


class DeviceManager:
    """The device plugins of a node and their allocations.

    NVIDIA's plugin prefers devices; of equal sets, and where the kubelet itself picks from an unordered Go
    map, this takes the first in the list. `assignments` maps pod -> container -> resource -> bitmask of
    positions, and `preferred` likewise to what the plugin was left to choose from.
    """

    def __init__(self, inventory: Inventory, node_mask: int, minor: int = LATEST_MINOR) -> None:
        self.plugins: dict[str, _Plugin] = {}
        self.assignments: dict[str, dict[str, dict[str, int]]] = {}
        self.preferred: dict[tuple[str, str, str], Preferred] = {}
        self._reusable: tuple[str, dict[str, int]] = ("", {})
        self._node_mask = node_mask
        self._minor = minor
        self.register(inventory)

    def register(self, inventory: Inventory) -> None:
        """Register a device plugin; until then the manager ignores its resource."""
        for resource, devices in inventory.items():
            if resource in self.plugins:
                raise DeviceError("a plugin has registered this resource already", where=resource)
            self.plugins[resource] = _Plugin(devices, self._node_mask, self._minor)

    def restore(self, assignments: Mapping[str, Mapping[str, Mapping[str, Collection[str]]]]) -> None:
        """Restore pod -> container -> resource -> device ids; unknown ids are left out."""
        for pod, containers in assignments.items():
            for container, resources in containers.items():
                for resource, ids in resources.items():
                    if resource not in self.plugins:
                        continue
                    listed = enumerate(self.plugins[resource].devices)
                    mask = mask_of(index for index, device in listed if device.id in ids)
                    self.assignments.setdefault(pod, {}).setdefault(container, {})[resource] = mask
        self._recount()

    def collect(self, active: Collection[str]) -> None:
        """Release the devices of pods that are no longer active (UpdateAllocatedDevices)."""
        inactive = [pod for pod in self.assignments if pod not in active]
        for pod in inactive:
            del self.assignments[pod]
            self.preferred = {key: sets for key, sets in self.preferred.items() if key[0] != pod}
        if inactive:
            self._recount()

    def allocatable(self) -> dict[str, int]:
        """Return the number of healthy devices of each resource (GetCapacity)."""
        return {resource: plugin.healthy.bit_count() for resource, plugin in self.plugins.items()}

    def free_near(self, numa_node: int) -> dict[str, int]:
        """Return the number of free healthy devices near a NUMA node, by resource."""
        return {
            resource: (plugin.healthy & ~plugin.allocated & plugin.of_node.get(numa_node, 0)).bit_count()
            for resource, plugin in self.plugins.items()
        }

    def devices_of(self, pod: str) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return the ids that a pod's containers hold, by container and resource."""
        return {
            container: {resource: self._ids(resource, devices) for resource, devices in by_resource.items()}
            for container, by_resource in self.assignments.get(pod, {}).items()
        }

    def choices_of(self, pod: str) -> dict[str, dict[str, tuple[tuple[str, ...], ...]]]:
        """Return the sets of ids that were equal for a plugin, those that it took first."""
        choices: dict[str, dict[str, tuple[tuple[str, ...], ...]]]
        choices = {container: {} for container in self.assignments.get(pod, {})}
        for (owner, container, resource), preferred in self.preferred.items():
            if owner == pod and container in choices and len(preferred.sets) > 1:
                sets = tuple(self._ids(resource, devices) for devices in preferred.sets)
                choices[container][resource] = sets
        return choices

    def may_crash_for(self, pod: str) -> tuple[str, ...]:
        """Return the resources whose plugin may have crashed instead of choosing devices for a pod."""
        return tuple(
            key[2] for key, preferred in self.preferred.items() if key[0] == pod and preferred.may_crash
        )

    def _ids(self, resource: str, devices: int) -> tuple[str, ...]:
        return tuple(self.plugins[resource].devices[index].id for index in bits(devices))

    def container_hints(self, demand: Demand, container: Container) -> HintsByResource:
        """Return the hints for one container (GetTopologyHints)."""
        by_resource = self.assignments.get(demand.pod.name, {}).get(container.name, {})
        reusable = self._reusable_by(demand)
        return {
            resource: self._hints(resource, count, by_resource.get(resource, 0), reusable.get(resource, 0))
            for resource, count in self._requests(container.limits).items()
        }

    def pod_hints(self, demand: Demand) -> HintsByResource:
        """Return the hints for a pod as a whole (GetPodTopologyHints)."""
        masks: dict[str, int] = {}
        for resources in self.assignments.get(demand.pod.name, {}).values():
            for resource, mask in resources.items():
                masks[resource] = masks.get(resource, 0) | mask
        return {
            resource: self._hints(resource, count, masks.get(resource, 0), 0)
            for resource, count in self._requests(pod_limits(demand.pod)).items()
        }

    def allocate(self, demand: Demand, container: Container, hint: Hint) -> None:
        """Allocate a container's devices, or raise PodRejectedError (Allocate)."""
        pod = demand.pod.name
        reusable = dict(self._reusable_by(demand))
        for resource, count in self._requests(container.limits).items():
            allocated = self._take(demand, container, resource, count, reusable.get(resource, 0), hint.numa)
            self._refuse_more_than_one(resource, allocated)
            if allocated:
                self.assignments.setdefault(pod, {}).setdefault(container.name, {})[resource] = allocated
        for resource, mask in self.assignments.get(pod, {}).get(container.name, {}).items():
            reusable_mask = reusable.get(resource, 0)
            reusable[resource] = (
                reusable_mask | mask
                if container.init and not container.restartable
                else reusable_mask & ~mask
            )
        self._reusable = (pod, reusable)

    def allocate_pod(self, demand: Demand, hint: Hint) -> None:
        """Do nothing: a pod managed as one unit gets devices when its containers start (AllocatePod)."""

    def _refuse_more_than_one(self, resource: str, allocated: int) -> None:
        """Reject several replicas as NVIDIA's plugin does (k8s-device-plugin, rm.go, ValidateRequest)."""
        devices = self.plugins[resource].devices
        if allocated.bit_count() < 2 or not any(devices[index].one_per_request for index in bits(allocated)):
            return
        self._recount()
        raise unexpected(
            f'rpc error: code = Unknown desc = invalid allocation request for "{resource}": invalid request: '
            f"maximum request size for shared resources is 1; found {allocated.bit_count()}",
            resource,
        )

    def _requests(self, limits: Quantities) -> dict[str, int]:
        return {resource: ceil(quantity) for resource, quantity in limits.items() if resource in self.plugins}

    def _reusable_by(self, demand: Demand) -> dict[str, int]:
        pod, devices = self._reusable
        return devices if pod == demand.pod.name else {}

    def _recount(self) -> None:
        for plugin in self.plugins.values():
            plugin.allocated = 0
        for containers in self.assignments.values():
            for resources in containers.values():
                for resource, mask in resources.items():
                    self.plugins[resource].allocated |= mask

    def _hints(self, resource: str, count: int, assigned: int, reusable: int) -> Hints | None:
        plugin = self.plugins[resource]
        if not plugin.has_topology:
            return None
        if assigned:
            return _hints(plugin, assigned, 0, count) if assigned.bit_count() == count else NO_HINTS
        available = plugin.healthy & ~plugin.allocated
        if (available | reusable).bit_count() < count:
            return NO_HINTS
        return _hints(plugin, available, reusable, count)

    def _take(
        self, demand: Demand, container: Container, resource: str, count: int, reusable: int, numa: int | None
    ) -> int:
        """Take and return devices: reusable ones, then near ones, then the rest (devicesToAllocate)."""
        plugin = self.plugins[resource]
        assigned = self.assignments.get(demand.pod.name, {}).get(container.name, {}).get(resource)
        if assigned is not None and assigned.bit_count() != count:
            owner = f'pod "{demand.pod.name}" container "{container.name}"'
            changed = f'changed request for resource "{resource}" from {assigned.bit_count()} to {count}'
            raise unexpected(f"{owner} {changed}", resource)
        unhealthy = f"cannot allocate unhealthy devices {resource}"
        if not plugin.healthy:
            raise unexpected(f"no healthy devices present; {unhealthy}", resource)
        if assigned is not None and assigned & ~plugin.healthy:
            raise unexpected(f"previously allocated devices are no longer healthy; {unhealthy}", resource)
        if assigned is not None or count == 0:
            return 0
        allocated = lowest_bits(reusable, count)
        plugin.allocated |= allocated
        needed = count - allocated.bit_count()
        if needed == 0:
            return allocated
        available = plugin.healthy & ~plugin.allocated
        if available.bit_count() < needed:
            amounts = f"Requested: {needed}, Available: {available.bit_count()}"
            raise unexpected(f"requested number of devices unavailable for {resource}. {amounts}", resource)
        near = plugin.in_nodes(numa) & available if plugin.has_topology and numa is not None else 0
        if needed >= near.bit_count():
            allocated |= near
            near = available & ~near
        if allocated.bit_count() < count:
            allocated = self._preferred(demand, container, resource, near | allocated, allocated, count)
        plugin.allocated |= allocated
        return allocated

    def _preferred(
        self, demand: Demand, container: Container, resource: str, available: int, required: int, count: int
    ) -> int:
        """Return the devices that the plugin prefers, and keep those that it may prefer as well."""
        preferred = self.plugins[resource].preferred(available, required, count)
        if len(preferred.sets) > 1 or preferred.may_crash:
            self.preferred[demand.pod.name, container.name, resource] = preferred
        if not preferred.sets:
            raise unexpected(_CRASHED, resource)
        return preferred.sets[0]


def _preference(devices: Sequence[Device]) -> Preference | None:
    """Return how NVIDIA's plugin chooses among its devices; None for another plugin."""
    if all(device.links for device in devices):
        scores = [dict(device.links) for device in devices]
        return ByLinks(tuple(tuple(row.get(device.id, 0) for device in devices) for row in scores))
    if all(device.sharing for device in devices):
        replicas = grouped((device.id.partition("::")[0], 1 << at) for at, device in enumerate(devices))
        return ByReplicas(tuple(map(sum, replicas.values())), devices[0].sharing == PACKED)
    return None


def _hints(plugin: _Plugin, available: int, reusable: int, count: int) -> Hints:
    """Return a hint for each set of NUMA nodes with enough devices (generateDeviceTopologyHints)."""
    every = plugin.nodes
    refuse_endless(every)
    must_be_near = reusable & ~plugin.without_topology

    def serve(devices: int) -> bool:
        if must_be_near & ~devices:
            return False
        return must_be_near.bit_count() + (available & devices).bit_count() >= count

    def masks() -> list[int]:
        near = zip(subsets(every), unions(every, plugin.of_node), strict=True)
        return [mask for mask, devices in near if mask and serve(devices)]

    # A device of several NUMA nodes counts once per node here, and once in total below.
    first = max(1, fewest((devices.bit_count() for devices in plugin.of_node.values()), count))
    sizes = range(first, every.bit_count())
    able = (
        size
        for size in sizes
        if any(plugin.in_nodes(mask).bit_count() >= count for mask in of_size(every, size))
    )
    smallest = next(able, every.bit_count())
    return Hints([mask for mask in of_size(every, smallest) if serve(plugin.in_nodes(mask))], masks)


def _read_devices(entries: Any, resource: str) -> tuple[Device, ...]:
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise DeviceError("must be a list with one entry per device", where=resource)
    devices = tuple(
        _read_device(entry, str(index), f"{resource}[{index}]") for index, entry in enumerate(entries)
    )
    if len({device.id for device in devices}) != len(devices):
        raise DeviceError("two devices have the same id", where=resource)
    return devices


def _read_device(entry: Any, default_id: str, where: str) -> Device:
    if isinstance(entry, Device):
        return entry
    if isinstance(entry, Mapping):
        nodes = entry.get("numa_nodes", entry.get("numa_node"))
        if not isinstance(healthy := entry.get("healthy", True), bool):
            raise DeviceError(f"{healthy!r} is neither true nor false", where=f"{where}.healthy")
        return Device(str(entry.get("id", default_id)), _read_nodes(nodes, where), healthy)
    return Device(default_id, _read_nodes(entry, where))


def _read_nodes(entry: Any, where: str) -> frozenset[int] | None:
    if entry is None:
        return None
    nodes = [entry] if isinstance(entry, int) else entry
    if not isinstance(nodes, Sequence | frozenset) or not all(
        isinstance(n, int) and -1 <= n < 64 for n in nodes
    ):
        raise DeviceError(
            f"{entry!r} names no NUMA nodes", where=where, remedy="a NUMA node, a list of them, or null"
        )
    return frozenset(nodes)
