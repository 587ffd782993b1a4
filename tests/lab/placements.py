"""What a kubelet gave to pods, from its three state files."""

import json
from dataclasses import dataclass

from lab.node import Node
from numaforge.lib.cpulist import parse_cpulist

GPU = "nvidia.com/gpu"
STATE = "/var/lib/kubelet"


@dataclass(frozen=True)
class Placement:
    """What one pod got: its CPUs, its memory in bytes by NUMA nodes, the PCI addresses of its GPUs."""

    cpus: frozenset[int]
    memory: dict[frozenset[int], int]
    gpus: frozenset[str]


def placements_of(node: Node, uids: list[str]) -> list[Placement]:
    """Return what the kubelet's three state files say about each pod."""
    cpus = json.loads(node.run(f"cat {STATE}/cpu_manager_state"))
    memory = json.loads(node.run(f"cat {STATE}/memory_manager_state"))
    devices = json.loads(node.run(f"cat {STATE}/device-plugins/kubelet_internal_checkpoint"))
    entries = devices["Data"]["PodDeviceEntries"]
    return [
        Placement(
            cpus=parse_cpulist(cpus["entries"][uid]["work"]),
            memory={
                frozenset(block["numaAffinity"]): block["size"]
                for block in memory["entries"][uid]["work"]
                if block["type"] == "memory"
            },
            gpus=frozenset(
                device
                for entry in entries
                if entry["PodUID"] == uid and entry["ResourceName"] == GPU
                for ids in entry["DeviceIDs"].values()
                for device in ids
            ),
        )
        for uid in uids
    ]
