"""Rails: each RDMA device with the GPUs nearest to it, and the best device of each GPU."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from numaforge.machine.topology.links import pci_distance
from numaforge.machine.topology.model import Gpu, NodeTopology, RdmaDevice

# Nearest first; an unknown distance is farther than any known one.
_DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS", None)


class Rail(NamedTuple):
    """An RDMA device and the PCI addresses of the GPUs to which no other device is nearer.

    `number` counts from 0 in the order of the GPUs, then of the devices, each by PCI address: it does not
    depend on names. `distance` is that to the nearest GPU, None where it is not known or there is none.
    """

    number: int
    device: RdmaDevice
    gpus: tuple[str, ...]
    distance: str | None


def rails(topology: NodeTopology) -> tuple[Rail, ...]:
    """Return the rails of a machine, those with GPUs first; management functions are none.

    Of devices equally near to a GPU those with a port that is not DOWN come first, then the fastest kind, as
    NCCL chooses; the others are rails without it. The nearest alone keeps its GPUs while DOWN: a pulled cable
    is a fault, not another topology. A virtual function is a rail only where its physical one is not there,
    or alone is DOWN. Software devices have no GPUs.
    """
    devices = carriers(topology.rdma_devices)
    speeds = _speeds(devices)
    gpus = sorted(topology.gpus, key=lambda gpu: gpu.pci_address)
    distances = {
        (gpu.pci_address, device.name): distance_to_device(gpu, device, topology)
        for gpu in gpus
        for device in devices
    }
    near: dict[str, list[str]] = {device.name: [] for device in devices}
    for gpu in (gpu.pci_address for gpu in gpus):
        best = min((distances[gpu, one.name] for one in devices), key=_DISTANCES.index, default=None)
        nearest = [one for one in devices if best is not None and distances[gpu, one.name] == best]
        for device in _preferred(nearest, speeds):
            near[device.name].append(gpu)
    # "~" follows every address: rails without GPUs, then software devices, come last.
    devices.sort(
        key=lambda one: (near[one.name][:1] or ["~"], one.pci_address or "~", one.interface or "", one.name)
    )
    ways = {name: [distances[gpu, name] for gpu in gpus_near] for name, gpus_near in near.items()}
    return tuple(
        Rail(number, one, tuple(near[one.name]), min(ways[one.name], key=_DISTANCES.index, default=None))
        for number, one in enumerate(devices)
    )


def best_devices(topology: NodeTopology) -> dict[str, RdmaDevice]:
    """Return for each GPU that is on a rail, by PCI address, the one device that it should use.

    It is one of the nearest. GPUs to which several devices are equally near share them evenly: no device gets
    another GPU while a GPU can be placed, by moving those before it, without raising the largest number of
    GPUs on one device. GPUs choose by PCI address, among equals the rail with the lowest number.
    """
    listed = rails(topology)
    near = {
        gpu.pci_address: [rail.number for rail in listed if gpu.pci_address in rail.gpus]
        for gpu in sorted(topology.gpus, key=lambda gpu: gpu.pci_address)
    }
    waiting = [gpu for gpu, numbers in near.items() if numbers]
    served: dict[int, list[str]] = {rail.number: [] for rail in listed}
    for most in count(1):
        waiting = [gpu for gpu in waiting if not _place(gpu, near, served, most, set())]
        if not waiting:
            break
    chosen = {gpu: listed[number].device for number, gpus in served.items() for gpu in gpus}
    return dict(sorted(chosen.items()))


def distance_to_device(gpu: Gpu, device: RdmaDevice, topology: NodeTopology) -> str | None:
    """Return PIX, PXB, PHB, NODE or SYS between a GPU and an RDMA device, None where that is not known.

    A device with a second way into GPUs' memory is as near as the nearer of both, as NCCL and UCX take it.
    Software has none: what it sends passes through the CPU's memory.
    """
    if device.pci_address is None:
        return None
    ways = [device, *([replace(device, pci_address=device.data_direct)] if device.data_direct else [])]
    return min((pci_distance(gpu, way, topology) for way in ways), key=_DISTANCES.index)


def is_down(device: RdmaDevice) -> bool:
    """Return whether every port is known to be DOWN."""
    return bool(device.ports) and all(port.state == "DOWN" for port in device.ports)


def carriers(devices: Iterable[RdmaDevice]) -> list[RdmaDevice]:
    """Return the devices that carry traffic of workloads themselves, not through a function of theirs."""
    listed = [device for device in devices if not device.management]
    physical = {device.pci_address: device for device in listed if device.physical_function is None}
    carriers = []
    for device in listed:
        parent = physical.get(device.physical_function) if device.physical_function else None
        if parent is None or (is_down(parent) and not is_down(device)):
            carriers.append(device)
    return carriers


def _preferred(
    near: Sequence[RdmaDevice], speeds: Mapping[tuple[str | None, ...], float]
) -> list[RdmaDevice]:
    """Return the fastest of the devices in use; those of unknown speed are kept."""
    in_use = [device for device in near if not is_down(device)]
    speed_of = {device.name: speeds.get(_kind(device)) for device in in_use or near}
    fastest = max((speed for speed in speed_of.values() if speed is not None), default=None)
    return [device for device in in_use or near if speed_of[device.name] in (None, fastest)]


def _speeds(devices: Iterable[RdmaDevice]) -> dict[tuple[str | None, ...], float]:
    """What each kind of device reaches here, in Gb/s: one that trained lower is still of its kind.

    The rate of a port that is down is that of its slowest mode.
    """
    speeds: dict[tuple[str | None, ...], float] = {}
    for device in devices:
        for port in device.ports:
            rate = re.match(r"[0-9.]+(?= Gb/sec)", port.rate or "")
            if rate and port.state != "DOWN":
                speeds[_kind(device)] = max(speeds.get(_kind(device), 0.0), float(rate[0]))
    return speeds


def _kind(device: RdmaDevice) -> tuple[str | None, ...]:
    return device.vendor, device.device, device.board


def _place(
    gpu: str, near: Mapping[str, Sequence[int]], served: Mapping[int, list[str]], most: int, visited: set[int]
) -> bool:
    """Give a GPU one of its rails, moving others if needed; no rail may serve more than `most`."""
    free = next((rail for rail in near[gpu] if len(served[rail]) < most), None)
    if free is not None:
        served[free].append(gpu)
        return True
    for rail in near[gpu]:
        if rail in visited:
            continue
        visited.add(rail)
        for served_gpu in list(served[rail]):
            if _place(served_gpu, near, served, most, visited):
                served[rail].remove(served_gpu)
                served[rail].append(gpu)
                return True
    return False
