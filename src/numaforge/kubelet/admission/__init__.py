"""Would this pod be admitted: the topology, CPU, memory and device managers of kubelet 1.36, simulated."""

from numaforge.kubelet.admission.device_manager import Device, inventory_of, read_inventory
from numaforge.kubelet.admission.hints import Hint
from numaforge.kubelet.admission.machine import Machine
from numaforge.kubelet.admission.memory_manager import MemoryBlock
from numaforge.kubelet.admission.node import Admission, Node
from numaforge.kubelet.admission.pod import Container, Pod

__all__ = [
    "Admission",
    "Container",
    "Device",
    "Hint",
    "Machine",
    "MemoryBlock",
    "Node",
    "Pod",
    "inventory_of",
    "read_inventory",
]
