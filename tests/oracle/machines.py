"""Random machines, as cAdvisor describes them to a kubelet and as a NodeTopology."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from numaforge.machine.topology.model import (
    Core,
    CpuStates,
    HugepagePool,
    L3Cache,
    NodeTopology,
    NumaNode,
    Package,
)

GIB = 2**30
_PAGES = {64: "64Ki", 2048: "2Mi", 32768: "32Mi", 524288: "512Mi", 1048576: "1Gi", 16777216: "16Gi"}
CGROUP_VERSION = 2 if Path("/sys/fs/cgroup/cgroup.controllers").exists() else 1
"""Of this host: the kubelet's own code looks there."""


@dataclass(frozen=True)
class Shape:
    """A kind of machine: NUMA nodes in all, sockets, cores of each NUMA node, threads of each core.

    `cores_per_l3` None: the last-level cache covers the NUMA node. `far` siblings are numbered behind all
    first threads, as Linux numbers them on x86; near ones side by side, as on POWER and in virtual machines.
    """

    numa_nodes: int
    sockets: int
    cores: int
    threads: int = 2
    cores_per_l3: int | None = None
    far: bool = True
    gib: int = 64
    hugepages_2mi: int = 0
    hugepages_1gi: int = 0
    memory_only_nodes: int = 0
    uneven: bool = False
    """One sibling of the last core is offline."""


KINDS: Mapping[str, Shape] = {
    "dgx-h100": Shape(2, 2, 56, gib=1024),
    "hgx-epyc-nps4": Shape(8, 2, 24, gib=96, cores_per_l3=8),
    "epyc-nps1": Shape(2, 2, 32, gib=256, cores_per_l3=8),
    "xeon-snc2": Shape(4, 2, 16, gib=128),
    "small": Shape(2, 2, 4, gib=16),
    "small-hugepages": Shape(2, 2, 4, gib=16, hugepages_2mi=1024, hugepages_1gi=4),
    "lab": Shape(4, 2, 2, gib=4, hugepages_2mi=64),
    "vm": Shape(1, 1, 2, gib=8, far=False),
    "no-smt": Shape(2, 2, 8, threads=1, gib=32),
    "power": Shape(2, 2, 5, threads=4, gib=64, far=False),
    "sockets-in-numa": Shape(2, 4, 4, gib=16),
    "grace": Shape(2, 2, 12, threads=1, gib=120, memory_only_nodes=2),
    "offline-sibling": Shape(2, 2, 4, gib=16, uneven=True),
}


def random_shape(random: Random) -> Shape:
    """Return one of the known kinds or, as often, a shape of no machine in particular."""
    if random.random() < 0.5:
        return random.choice(list(KINDS.values()))
    sockets = random.choice((1, 1, 2, 2, 4))
    numa_nodes = sockets * random.choice((1, 1, 1, 2, 4)) if sockets < 4 else random.choice((2, 4))
    cores_per_l3 = random.choice((1, 2, 4))
    return Shape(
        numa_nodes=numa_nodes,
        sockets=sockets,
        cores=cores_per_l3 * random.randint(2, 4),
        threads=random.choice((1, 2, 2, 2, 4)),
        cores_per_l3=random.choice((None, cores_per_l3)),
        far=random.random() < 0.7,
        gib=random.choice((2, 8, 31, 64, 512)),
        hugepages_2mi=random.choice((0, 0, 128)),
        hugepages_1gi=random.choice((0, 0, 1)),
        uneven=random.random() < 0.1,
    )


def described(shape: Shape) -> dict[str, Any]:
    """Return a machine in the oracle's form (`Machine` in lab/go/oracle/managers.go)."""
    count = shape.numa_nodes * shape.cores
    per_socket = count // shape.sockets
    nodes = []
    for node in range(shape.numa_nodes):
        cores = []
        for core in range(node * shape.cores, (node + 1) * shape.cores):
            step, first = (count, core) if shape.far else (1, core * shape.threads)
            entry: dict[str, Any] = {
                "socket": core // per_socket,
                "threads": [first + step * thread for thread in range(shape.threads)],
            }
            if shape.cores_per_l3 and shape.cores_per_l3 < shape.cores:
                entry["uncore"] = core // shape.cores_per_l3
            cores.append(entry)
        nodes.append(_node(shape, node, cores))
    nodes += [_node(shape, shape.numa_nodes + extra, []) for extra in range(shape.memory_only_nodes)]
    if shape.uneven and shape.threads > 1:
        nodes[shape.numa_nodes - 1]["cores"][-1]["threads"].pop()
    return {"memory": sum(node["memory"] for node in nodes), "numa": nodes}


def _node(shape: Shape, number: int, cores: list[dict[str, Any]]) -> dict[str, Any]:
    every = shape.numa_nodes + shape.memory_only_nodes
    per_socket = max(1, shape.numa_nodes // shape.sockets)
    # Linux lists every page size of the processor on every NUMA node, also one without pages.
    pools = {2048: shape.hugepages_2mi if cores else 0, 1048576: shape.hugepages_1gi if cores else 0}
    return {
        "id": number,
        "memory": shape.gib * GIB + number * 4096,
        "distances": [
            10 if other == number else 12 if other // per_socket == number // per_socket else 32
            for other in range(every)
        ],
        "hugepages": [{"pageSizeKiB": size, "numPages": pages} for size, pages in pools.items()],
        "cores": cores,
    }


def topology(machine: Mapping[str, Any], cgroup_version: int = CGROUP_VERSION) -> NodeTopology:
    """Return a described machine as numaforge reads it."""
    cores, caches, packages = [], dict[int, set[int]](), dict[int, set[int]]()
    for node in machine["numa"]:
        for core in node.get("cores", ()):
            threads = frozenset(core["threads"])
            cores.append(Core(core["socket"], node["id"], threads))
            packages.setdefault(core["socket"], set()).update(threads)
            if "uncore" in core:
                caches.setdefault(core["uncore"], set()).update(threads)
    online = frozenset(cpu for core in cores for cpu in core.cpus)
    return NodeTopology(
        hostname=None,
        architecture="x86_64",
        kernel=None,
        kernel_cmdline=None,
        memory_bytes=machine["memory"] if "memory" in machine else sum(n["memory"] for n in machine["numa"]),
        swap_bytes=0,
        cgroup_version=cgroup_version,
        kubelet=None,
        cpus=CpuStates(online, frozenset(), frozenset()),
        packages=tuple(Package(number, frozenset(cpus)) for number, cpus in sorted(packages.items())),
        numa_nodes=tuple(_numa_node(node) for node in machine["numa"]),
        cores=tuple(cores),
        l3_caches=tuple(L3Cache(frozenset(cpus), None) for _, cpus in sorted(caches.items())),
        cpufreq=None,
        gpus=(),
        nics=(),
        pci_paths={},
    )


def _numa_node(node: Mapping[str, Any]) -> NumaNode:
    return NumaNode(
        id=node["id"],
        cpus=frozenset(cpu for core in node.get("cores", ()) for cpu in core["threads"]),
        memory_bytes=node["memory"],
        distances=dict(enumerate(node.get("distances") or ())),
        hugepages={
            _PAGES[pool["pageSizeKiB"]]: HugepagePool(pool["numPages"], pool["numPages"])
            for pool in node.get("hugepages") or ()
        },
    )
