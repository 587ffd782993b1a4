"""The machines that an image was made for, compared with a node before it plans itself."""

import json
from collections.abc import Mapping
from pathlib import Path

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.lib.given import read_json
from numaforge.machine.topology.model import Accelerator, Gpu, NodeTopology

MACHINES = "/etc/numaforge/image/machines"
_NEAR_BYTES, _NEAR_PART = 64 << 20, 64
"""How much of a NUMA node's memory may move from boot to boot, as in boot.sh: bytes, or one part in 64."""

Hardware = Mapping[str, str | int]
"""A machine's hardware by name: CPUs as a cpulist, memory in bytes, GPUs by their PCI IDs."""


def hardware_of(machine: NodeTopology) -> dict[str, str | int]:
    """Return the hardware facts that identify a machine's model."""
    hardware: dict[str, str | int] = {"CPUs": format_cpulist(machine.online | machine.offline)}
    for node in machine.numa_nodes:
        hardware[f"memory of NUMA node {node.id}"] = node.memory_bytes or 0
    devices: tuple[Gpu | Accelerator, ...] = (*machine.gpus, *machine.accelerators)
    hardware.update({f"GPU {device.pci_address}": f"{device.vendor}:{device.device}" for device in devices})
    return hardware


def written(machine: NodeTopology) -> str:
    """Return the text of a machine below MACHINES."""
    return json.dumps(hardware_of(machine), indent=2) + "\n"


def require_expected(machine: NodeTopology, folder: Path = Path(MACHINES)) -> str | None:
    """Return which of an image's machines this is, None where it is for any; raises HostError for another."""
    models = {file.stem: _read(file) for file in sorted(folder.glob("*.json"))}
    if not models:
        return None
    hardware = hardware_of(machine)
    unlike = {name: _differences(expected, hardware) for name, expected in models.items()}
    nearest = min(unlike, key=lambda name: len(unlike[name]))
    if not unlike[nearest]:
        return nearest
    raise HostError(
        f"the image was not made for this machine; it differs from {nearest}: " + "; ".join(unlike[nearest]),
        where=str(folder),
        remedy="bake an image for it: machines in numaforge_image",
    )


def _read(file: Path) -> Hardware:
    document = read_json(file)
    if not isinstance(document, dict) or not all(
        isinstance(amount, str | int) for amount in document.values()
    ):
        raise NumaforgeError("is not a machine that an image was made for", where=str(file))
    return document


def _differences(expected: Hardware, hardware: Hardware) -> list[str]:
    sentences = []
    for name in dict.fromkeys([*expected, *hardware]):
        actual, planned = hardware.get(name), expected.get(name)
        if actual == planned or _is_near(actual, planned):
            continue
        if actual is None:
            sentences.append(f"{name} ({_shown(planned)}) is missing")
        elif planned is None:
            sentences.append(f"{name} ({_shown(actual)}) is too many")
        else:
            sentences.append(f"{name} is {_shown(actual)}, and not {_shown(planned)}")
    return sentences


def _is_near(one: str | int | None, second: str | int | None) -> bool:
    if not isinstance(one, int) or not isinstance(second, int):
        return False
    return abs(one - second) <= max(_NEAR_BYTES, second // _NEAR_PART)


def _shown(value: str | int | None) -> str:
    return f"{value >> 20} MiB" if isinstance(value, int) else str(value)
