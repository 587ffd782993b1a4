"""ResourceSlices compared with topology and plan: predicted, offered, and by whom.

Drivers write slices, so no object is planned: each device identified by PCI address, NUMA node or CPU is
compared with the machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numaforge.cluster.schedulers.dra import API, CPU_CAPACITY, GPU_CLASSES, NIC_DRIVER, NUMA_NODE, PCIE_ROOT
from numaforge.cluster.schedulers.fleet import ServedNode, root_of
from numaforge.cluster.schedulers.live import Deviation, writer_of
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import mapping
from numaforge.lib.kubernetes_objects import CPU_DRIVER, manifest
from numaforge.lib.quantity import parse_quantity
from numaforge.machine.topology.gpu_models import countable_gpus
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.rails import rails
from numaforge.machine.topology.vendors import NVIDIA, listed_by_nvml
from numaforge.roles.dra.plan import CpuDriverPlan, driver_packages, placed_cpus

_KIND = "ResourceSlice"
BUS_ID = "resource.kubernetes.io/pciBusID"
_CPU_ID = "dra.cpu/cpuID"
_SOCKET = "dra.cpu/socketID"
_NUM_CPUS = "dra.cpu/numCPUs"
_LEGACY_NUMA_NODE = "dra.cpu/numaNodeID"
LEGACY_NUMA_NODES = (_LEGACY_NUMA_NODE, "dra.net/numaNode")
"""The attribute of v0.2.0 in place of the standard one, and of later releases in addition."""
_GROUP_NAMES = {"numanode": "cpudevnuma{:03}", "socket": "cpudevsocket{:03}", "machine": "cpudevmachine"}
_DEVICES = ("spec", "devices")

Slice = Mapping[str, Any]


def slice_deviations(nodes: Sequence[ServedNode], slices: Sequence[Slice]) -> Iterator[Deviation]:
    """Yield how slices of these nodes differ from their machines and plans."""
    for node in nodes:
        node_slices = [node_slice for node_slice in slices if _spec(node_slice).get("nodeName") == node.name]
        yield from _cpu_deviations(node, _of_driver(node_slices, CPU_DRIVER))
        yield from _gpus_not_offered(node, node_slices)
        for node_slice in node_slices:
            for device in _devices(node_slice):
                yield from _location_deviations(node, node_slice, device)


def planned_slices(node: ServedNode, name: str) -> Iterator[dict[str, Any]]:
    """Yield the slices that drivers will offer for a planned node of this Node name.

    Predicts what follows from the machine: whole GPUs and RDMA devices by PCIe root, and the CPU driver's
    groups; not MIG devices and other attributes.
    """
    offered = _gpus_and_nics(node.machine) if node.claims_gpus else {}
    if node.cpu_driver:
        offered[CPU_DRIVER] = [*_planned_cpus(node, node.cpu_driver)]
    yield from _slices(offered, name)


def registered_slices(machine: NodeTopology, name: str) -> Iterator[dict[str, Any]]:
    """Yield the same for drivers registered on a machine, but that of CPUs: its groups are not visible."""
    offered = _gpus_and_nics(machine)
    yield from _slices(
        {driver: offered[driver] for driver in offered if driver in machine.claim_drivers}, name
    )


def _gpus_and_nics(machine: NodeTopology) -> dict[str, list[dict[str, Any]]]:
    """Return the devices that follow from the machine, by their drivers."""
    offered: dict[str, list[dict[str, Any]]] = {}
    for gpu in countable_gpus(machine.gpus):
        is_whole = gpu.mig_mode != "enabled" and (gpu.vendor != NVIDIA or listed_by_nvml(gpu))
        if gpu.vendor in GPU_CLASSES and is_whole and isinstance(gpu, Gpu):
            offered.setdefault(GPU_CLASSES[gpu.vendor], []).append(_planned_gpu(machine, gpu))
    for rail in rails(machine):
        if address := rail.device.pci_address:
            attributes = {"rdma": {"bool": True}, **_at(machine, address)}
            offered.setdefault(NIC_DRIVER, []).append({"name": rail.device.name, "attributes": attributes})
    return offered


def _slices(offered: Mapping[str, list[dict[str, Any]]], name: str) -> Iterator[dict[str, Any]]:
    for driver_name, devices in offered.items():
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver_name, "nodeName": name, "pool": pool, "devices": devices}
        yield manifest(API, _KIND, f"{name}-{driver_name}", labels={}, spec=spec)


def _planned_gpu(machine: NodeTopology, gpu: Gpu) -> dict[str, Any]:
    attributes = _at(machine, gpu.pci_address)
    if gpu.vendor == NVIDIA:
        attributes["type"] = {"string": "gpu"}
        descriptions = {"uuid": gpu.uuid, "productName": gpu.name}
        attributes |= {key: {"string": value} for key, value in descriptions.items() if value}
    return {
        "name": f"gpu-{gpu.pci_address}" if gpu.minor is None else f"gpu-{gpu.minor}",
        "attributes": attributes,
    }


def _at(machine: NodeTopology, address: str) -> dict[str, Any]:
    """Return the location attributes of a GPU or NIC, as their drivers write them."""
    root = root_of(machine, address)
    return {BUS_ID: {"string": address}} | ({PCIE_ROOT: {"string": root}} if root else {})


def _planned_cpus(node: ServedNode, driver: CpuDriverPlan) -> Iterator[dict[str, Any]]:
    """Yield the CPU driver's devices, with the driver's names (pkg/device/builder.go)."""
    if driver.device_mode == "individual":
        yield from _planned_single_cpus(node)
        return
    sockets = {cpu: package.id for package in driver_packages(node.machine) for cpu in package.cpus}
    for group, cpus in sorted(groups_of(node, driver).items()):
        if not cpus:
            continue
        attributes = {_NUM_CPUS: len(cpus)}
        if driver.group_by == "numanode":
            attributes |= _of_numa_node(group)
        # For a NUMA node in several packages the driver names one that cannot be predicted.
        if driver.group_by != "machine" and len(within := {sockets[cpu] for cpu in cpus}) == 1:
            attributes[_SOCKET] = min(within)
        yield {
            "name": _GROUP_NAMES[driver.group_by].format(group),
            "attributes": {name: {"int": value} for name, value in attributes.items()},
            "capacity": {CPU_CAPACITY: {"value": str(len(cpus))}},
            "allowMultipleAllocations": True,
        }


def _planned_single_cpus(node: ServedNode) -> Iterator[dict[str, Any]]:
    """Yield a device for each CPU, in the order of cores, the threads of a core in a row.

    The driver identifies cores by package and core_id: their order differs where dies of a package repeat
    ids.
    """
    free = placed_cpus(node.machine) - node.plan.cpus.reserved
    places = {cpu: node_entry.id for node_entry in node.machine.numa_nodes for cpu in node_entry.cpus}
    sockets = {cpu: package.id for package in driver_packages(node.machine) for cpu in package.cpus}
    cores = sorted(sorted(core.cpus & free) for core in node.machine.cores)
    for number, cpu in enumerate(cpu for core in cores for cpu in core):
        ids = {_CPU_ID: cpu, _SOCKET: sockets[cpu], **_of_numa_node(places[cpu])}
        attributes = {name: {"int": value} for name, value in ids.items()}
        yield {"name": f"cpudev{number:03}", "attributes": attributes}


def _of_numa_node(number: int) -> dict[str, int]:
    return dict.fromkeys((NUMA_NODE, *LEGACY_NUMA_NODES), number)


def _cpu_deviations(node: ServedNode, slices: Sequence[Slice]) -> Iterator[Deviation]:
    driver = node.cpu_driver
    if driver is None:
        for cpu_slice in slices:
            yield _deviation(cpu_slice, "spec.driver", None, CPU_DRIVER, ("spec", "driver"))
        return
    if not slices:
        yield Deviation(_KIND, f"of {CPU_DRIVER} for {node.name}", "", driver.reserved_cpus, None)
        return
    offered = [(cpu_slice, device) for cpu_slice in slices for device in _devices(cpu_slice)]
    if driver.device_mode == "individual":
        yield from _single_cpus(node, offered)
    else:
        yield from _groups(node, driver, offered)


def _gpus_not_offered(node: ServedNode, node_slices: Sequence[Slice]) -> Iterator[Deviation]:
    """Yield the planned GPUs that their driver omits; none where it does not name PCI addresses."""
    for planned in planned_slices(node, node.name):
        driver = _spec(planned)["driver"]
        if driver not in GPU_CLASSES.values():
            continue
        slices = _of_driver(node_slices, driver)
        addresses = [_value(device, BUS_ID) for node_slice in slices for device in _devices(node_slice)]
        names = {str(_value(device, BUS_ID)): str(device["name"]) for device in _devices(planned)}
        if not slices:
            yield Deviation(_KIND, f"of {driver} for {node.name}", "", f"{len(names)} GPUs", None)
        elif None not in addresses:
            for address in sorted(names.keys() - {str(offered).lower() for offered in addresses}):
                yield _deviation(slices[0], f"spec.devices[{BUS_ID} {address}]", names[address], None)


def _single_cpus(node: ServedNode, offered: Sequence[tuple[Slice, Mapping[str, Any]]]) -> Iterator[Deviation]:
    reserved = node.plan.cpus.reserved
    free = placed_cpus(node.machine) - reserved
    offered_cpus = set()
    for cpu_slice, device in offered:
        cpu = _value(device, _CPU_ID)
        offered_cpus.add(cpu)
        if cpu not in free:
            fault = f"CPU {cpu}, which is {'reserved' if cpu in reserved else 'not there'}"
            yield _deviation(cpu_slice, f"{_device_path(device)}.{_CPU_ID}", None, fault)
    if missing := free - offered_cpus:
        first = offered[0][0] if offered else {}
        yield _deviation(first, "spec.devices", f"CPUs {format_cpulist(missing)}", None)


def _groups(
    node: ServedNode, driver: CpuDriverPlan, offered: Sequence[tuple[Slice, Mapping[str, Any]]]
) -> Iterator[Deviation]:
    """Yield the groups with other CPUs than those for pods."""
    free = groups_of(node, driver)
    key = {"numanode": NUMA_NODE, "socket": _SOCKET}.get(driver.group_by)
    offered_groups = set()
    for cpu_slice, device in offered:
        group = _value(device, key) if key else 0
        if group is None and key == NUMA_NODE:
            group = _value(device, _LEGACY_NUMA_NODE)
        if group not in free:
            groups = f"one of {format_cpulist(free)}"
            yield _deviation(cpu_slice, f"{_device_path(device)}.{key}", groups, group)
            continue
        offered_groups.add(group)
        capacity = ((device.get("capacity") or {}).get(CPU_CAPACITY) or {}).get("value")
        if _amount(capacity) != len(free[group]):
            planned = f"{len(free[group])}, without the reserved {driver.reserved_cpus or 'none'}"
            yield _deviation(cpu_slice, f"{_device_path(device)}.capacity.{CPU_CAPACITY}", planned, capacity)
    for group in sorted(free.keys() - offered_groups):
        if free[group]:
            first = offered[0][0] if offered else {}
            yield _deviation(first, f"spec.devices[{key} {group}]", "a group", None)


def groups_of(node: ServedNode, driver: CpuDriverPlan) -> dict[int, frozenset[int]]:
    """Return the CPUs for pods, by the CPU driver's groups."""
    reserved, placed = node.plan.cpus.reserved, placed_cpus(node.machine)
    if driver.group_by == "machine":
        return {0: frozenset(node.machine.online) - reserved}
    by_numa_node = driver.group_by == "numanode"
    groups = node.machine.numa_nodes if by_numa_node else driver_packages(node.machine)
    return {group.id: (placed & group.cpus) - reserved for group in groups if placed & group.cpus}


def _location_deviations(
    node: ServedNode, device_slice: Slice, device: Mapping[str, Any]
) -> Iterator[Deviation]:
    """Yield the wrong location attributes of a device."""
    address = str(_value(device, BUS_ID) or "").lower()
    functions = {gpu.pci_address: gpu.numa_node for gpu in node.machine.gpus}
    functions |= {nic.pci_address: nic.numa_node for nic in node.machine.nics}
    if not address:
        return
    if address not in functions and address not in node.machine.pci_paths:
        yield _deviation(device_slice, f"{_device_path(device)}.{BUS_ID}", None, address)
        return
    root, said_root = root_of(node.machine, address), _value(device, PCIE_ROOT)
    if root is not None and said_root is not None and root not in _listed(said_root):
        yield _deviation(device_slice, f"{_device_path(device)}.{PCIE_ROOT}", root, said_root)
    numa_node, claimed = functions.get(address), _value(device, NUMA_NODE)
    if numa_node is not None and claimed is not None and numa_node not in _listed(claimed):
        yield _deviation(device_slice, f"{_device_path(device)}.{NUMA_NODE}", numa_node, claimed)


def _deviation(
    device_slice: Slice, path: str, planned: object, live: object, steps: tuple[str, ...] = _DEVICES
) -> Deviation:
    name = str((device_slice.get("metadata") or {}).get("name", "?"))
    return Deviation(_KIND, name, path, planned, live, writer_of(device_slice, steps))


def _device_path(device: Mapping[str, Any]) -> str:
    return f"spec.devices[{device.get('name', '?')}]"


def _spec(device_slice: Slice) -> Mapping[str, Any]:
    return mapping(device_slice.get("spec"))


def _of_driver(slices: Sequence[Slice], driver: str) -> list[Slice]:
    return [device_slice for device_slice in slices if _spec(device_slice).get("driver") == driver]


def _devices(device_slice: Slice) -> list[Mapping[str, Any]]:
    return [device for device in _spec(device_slice).get("devices") or () if isinstance(device, Mapping)]


def _value(device: Mapping[str, Any], name: str) -> Any:
    """Return an attribute's value, whatever its type: `{int: 0}`, `{string: x}`, `{ints: [0, 1]}`."""
    return next(iter(mapping(mapping(device.get("attributes")).get(name)).values()), None)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _amount(text: object) -> int | None:
    try:
        return int(parse_quantity(text)) if isinstance(text, str | int) else None
    except NumaforgeError:
        return None
