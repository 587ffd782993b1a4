"""Pod admission, simulated: the topology, CPU, memory and device managers of kubelet 1.37."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numaforge.kubelet.admission.device_manager import Device, read_inventory
    from numaforge.kubelet.admission.hints import Hint
    from numaforge.kubelet.admission.inventory import inventory_of
    from numaforge.kubelet.admission.machine import MachineInfo
    from numaforge.kubelet.admission.memory_manager import MemoryBlock
    from numaforge.kubelet.admission.node import Admission, Node
    from numaforge.kubelet.admission.pod import Container, Pod

__all__ = [
    "Admission",
    "Container",
    "Device",
    "Hint",
    "MachineInfo",
    "MemoryBlock",
    "Node",
    "Pod",
    "inventory_of",
    "read_inventory",
]

_HOMES = {
    "Admission": "node",
    "Container": "pod",
    "Device": "device_manager",
    "Hint": "hints",
    "MachineInfo": "machine",
    "MemoryBlock": "memory_manager",
    "Node": "node",
    "Pod": "pod",
    "inventory_of": "inventory",
    "read_inventory": "device_manager",
}


def __getattr__(name: str) -> Any:
    # Loaded at first use: `check` only needs the machine's shape, and answers within 0.3 s.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
