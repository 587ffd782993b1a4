"""Measure how many admissions a second the simulator decides on one core: `python bench/admission.py`.

Each machine is filled and emptied with random pods (GPUs, whole CPUs, memory, an init container now and then)
under every topology manager policy, with the static CPU manager and the static memory manager. Prints one
line per machine and policy; exits 1 where the slowest policy falls below the floor that the project promises.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from typing import Any

from numaforge.kubelet.admission.machine import CpuPlace, CpuTopology, MachineInfo, MachineNode
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import Pod

GIB = 2**30
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


@dataclass(frozen=True)
class Shape:
    """A machine by numbers, and the admissions per second that it must reach."""

    name: str
    sockets: int
    numa_nodes: int
    cores_per_node: int
    cores_per_l3: int
    memory_per_node: int
    gpus: int
    floor: int

    def machine(self) -> MachineInfo:
        cores = self.numa_nodes * self.cores_per_node
        whole_node = self.cores_per_l3 == self.cores_per_node
        places = {
            core + thread * cores: CpuPlace(
                core=core,
                socket=core * self.sockets // cores,
                numa_node=core // self.cores_per_node,
                uncore=core * self.sockets // cores if whole_node else core // self.cores_per_l3,
            )
            for core in range(cores)
            for thread in (0, 1)
        }
        nodes = tuple(
            MachineNode(
                i, self.memory_per_node, {}, {j: self._distance(i, j) for j in range(self.numa_nodes)}
            )
            for i in range(self.numa_nodes)
        )
        return MachineInfo(nodes, CpuTopology.of(places), self.numa_nodes * self.memory_per_node)

    def devices(self) -> dict[str, list[int]]:
        return {"nvidia.com/gpu": [i * self.numa_nodes // self.gpus for i in range(self.gpus)]}

    def config(self, policy: str) -> dict[str, Any]:
        cores = self.numa_nodes * self.cores_per_node
        first = [node * self.cores_per_node for node in range(self.numa_nodes)]
        reserved = ",".join(f"{core},{core + cores}" for core in first)
        return {
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
            "reservedSystemCPUs": reserved,
            "memoryManagerPolicy": "Static",
            "kubeReserved": {"memory": f"{self.numa_nodes}Gi"},
            "evictionHard": {"memory.available": "0%"},
            "reservedMemory": [
                {"numaNode": node, "limits": {"memory": "1Gi"}} for node in range(self.numa_nodes)
            ],
            "topologyManagerPolicy": policy,
            "topologyManagerScope": "container",
        }

    def _distance(self, a: int, b: int) -> int:
        if a == b:
            return 10
        return 12 if a * self.sockets // self.numa_nodes == b * self.sockets // self.numa_nodes else 32


SHAPES = (
    Shape("DGX H100 (2 NUMA nodes, 224 CPUs, 8 GPUs)", 2, 2, 56, 56, 1024 * GIB, 8, floor=500),
    Shape("EPYC 9654 NPS4 (8 NUMA nodes, 384 CPUs, 8 GPUs)", 2, 8, 24, 8, 192 * GIB, 8, floor=50),
)


def random_pods(shape: Shape, count: int) -> list[Pod]:
    """Return pods from a single GPU to several NUMA nodes, the same ones every time."""
    dice = random.Random(20)  # noqa: S311 a reproducible load, not a secret
    node_cpus, node_memory = 2 * shape.cores_per_node, shape.memory_per_node // GIB
    pods = []
    for number in range(count):
        gpus = dice.choice([0, 1, 1, 1, 2, 2, 4])
        cpus = 2 * dice.choice([1, 3, node_cpus // 8, node_cpus // 4, node_cpus])
        memory = dice.choice([4, node_memory // 8, node_memory // 2, 2 * node_memory])
        limits = {"cpu": str(cpus), "memory": f"{memory}Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
        if number % 5 == 0:
            small = {"limits": {"cpu": "2", "memory": "2Gi"}}
            spec["initContainers"] = [{"name": "fetch", "resources": small}]
        pods.append(Pod.from_manifest(spec, f"pod-{number}"))
    return pods


def measure(shape: Shape, policy: str, count: int) -> tuple[float, int]:
    """Return admissions per second, and how many of them the node said yes to."""
    pods = random_pods(shape, count)
    node = Node(shape.machine(), shape.config(policy), shape.devices())
    dice = random.Random(4)  # noqa: S311 a reproducible load, not a secret
    admitted = 0
    began = time.process_time()
    for pod in pods:
        if node.admit(pod).admitted:
            admitted += 1
        elif node.pods and dice.random() < 0.7:
            node.remove(dice.choice(node.pods))
    return count / (time.process_time() - began), admitted


def main() -> int:
    """Print the table; return 1 where a floor is missed."""
    missed = False
    for shape in SHAPES:
        rates = []
        for policy in POLICIES:
            rate, admitted = measure(shape, policy, 1500 if shape.floor > 100 else 300)
            rates.append(rate)
            print(f"{shape.name:50} {policy:17} {rate:8.0f} admissions/s  ({admitted} admitted)")
        missed = missed or min(rates) < shape.floor
        print(f"{shape.name:50} {'slowest':17} {min(rates):8.0f} admissions/s  (floor {shape.floor})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
