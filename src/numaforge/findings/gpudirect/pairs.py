"""Each GPU with each NIC: their distance, and whether the NIC reads and writes the GPU's memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from numaforge.findings.gpudirect.access_control import (
    NOT_READ,
    bridges_between,
    misconfigured,
    nics,
    required_control,
)
from numaforge.findings.gpudirect.scope import beside_grace, way_of_memory
from numaforge.lib.ordering import natural
from numaforge.machine.topology.links import gpu_names
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.rails import distance_to_device, rails


class Works(StrEnum):
    """Whether a NIC reads and writes the memory of a GPU, as NCCL uses it by default."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Pair:
    """A GPU and a NIC. `rail`: no NIC is nearer to the GPU; `reason`: why it is not `yes`.

    `direct` is the function by which a ConnectX-8 Direct reaches this GPU's memory.
    """

    gpu: str  # "GPU0"
    gpu_address: str
    nic: str  # "mlx5_0"
    nic_address: str
    distance: str | None
    rail: bool
    works: Works
    reason: str | None = None
    direct: str | None = None


def gpu_nic_pairs(machine: NodeTopology) -> tuple[Pair, ...]:
    """Return every GPU with every NIC: GPUs in their order, the NICs of a GPU's own rails first."""
    names = gpu_names(machine.gpus)
    near = {(address, rail.device.name) for rail in rails(machine) for address in rail.gpus}
    required = required_control(machine)
    wrong = misconfigured(machine, required)
    pairs = []
    for gpu in sorted(machine.gpus, key=lambda gpu: natural(names[gpu.pci_address])):
        for nic in sorted(nics(machine), key=lambda nic: natural(nic.name)):
            address = nic.pci_address or ""
            distance = distance_to_device(gpu, nic, machine)
            direct = (
                nic.data_direct if required.direct.get(nic.data_direct or "") == gpu.pci_address else None
            )
            way = (gpu.pci_address, direct or address)
            works, reason = _works(machine, distance, wrong, required.unknown, way)
            rail = (gpu.pci_address, nic.name) in near
            ends = names[gpu.pci_address], gpu.pci_address, nic.name, address
            pairs.append(Pair(*ends, distance, rail, works, reason, direct))
    order = {pair.gpu: position for position, pair in reversed([*enumerate(pairs)])}
    return tuple(sorted(pairs, key=lambda pair: (order[pair.gpu], not pair.rail)))


def _works(
    machine: NodeTopology,
    distance: str | None,
    wrong: Mapping[str, str],
    unknown: str | None,
    addresses: tuple[str, str],
) -> tuple[Works, str | None]:
    way = way_of_memory(machine)
    if way.none:
        return Works.NO, way.none
    if distance is None:
        return Works.UNKNOWN, "the firmware does not report their distance"
    if distance not in ("PIX", "PXB") and not (beside_grace(machine) and distance in ("PHB", "NODE")):
        return Works.NO, f"{distance} is beyond NCCL's level PXB"
    between = bridges_between(machine, *addresses)
    redirecting = [bridge for bridge in between if bridge in wrong]
    if redirecting:
        return Works.NO, f"access control of {', '.join(redirecting)}"
    if unknown and not machine.peer_memory.virtual_machine:
        read = {function.pci_address for function in machine.pci_functions if function.access_control}
        missing = next((bridge for bridge in between if bridge not in read), None)
        return Works.UNKNOWN, NOT_READ.format(missing) if missing else unknown
    return (Works.UNKNOWN, way.unknown) if way.unknown else (Works.YES, None)
