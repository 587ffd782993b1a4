"""What a machine file is held to: facts about its topology, its devices, the kubelet's view and its plans."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.masks import ids_of
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import format_bytes
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.rails import best_devices, rails
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile, ready_profiles

KUBELET_VERSION = "1.36.3"
"""The kubelet that the expected plans are made for, and whose view was asked for."""

Facts = dict[str, Any]


def groups(sets: Iterable[Iterable[int]]) -> str:
    """Return sets of CPUs in one line: `"0,8 1,9"`, by their lowest CPU."""
    return " ".join(format_cpulist(cpus) for cpus in sorted(sorted(cpus) for cpus in sets))


def topology_facts(topology: NodeTopology) -> Facts:
    """Return what another program can say of the same machine."""
    return {
        "packages": groups(package.cpus for package in topology.packages),
        "cores": groups(core.cpus for core in topology.cores),
        "numa_nodes": {
            str(node.id): {"cpus": format_cpulist(node.cpus), "memory_bytes": node.memory_bytes}
            for node in topology.numa_nodes
        },
        "last_level_caches": groups(cache.cpus for cache in topology.l3_caches),
    }


def host_facts(topology: NodeTopology) -> Facts:
    """Return the rest that is read of a machine."""
    return {
        "architecture": topology.architecture,
        "kernel": topology.kernel,
        "cgroup_version": topology.cgroup_version,
        "memory_bytes": topology.memory_bytes,
        "offline": format_cpulist(topology.offline),
        "isolated": format_cpulist(topology.isolated),
        "distances": {
            str(node.id): " ".join(str(distance) for _, distance in sorted(node.distances.items()))
            for node in topology.numa_nodes
        },
        "hugepages": {
            size: f"{pool.total} pages, {pool.free} free" for size, pool in topology.hugepages.items()
        },
        "gpus": {
            gpu.pci_address: f"{gpu.vendor}:{gpu.device}, {_at(gpu.numa_node)}" for gpu in topology.gpus
        },
        "accelerators": {
            found.pci_address: f"{found.vendor}:{found.device}, {_at(found.numa_node)}"
            for found in topology.accelerators
        },
        "nics": {
            f"{nic.pci_address} {nic.interface or '-'}": ", ".join(
                (nic.rdma_device or "no RDMA", nic.driver or "no driver", _at(nic.numa_node))
            )
            for nic in topology.nics
        },
        **(_rails(topology) if topology.rdma_devices else {}),
    }


def _rails(topology: NodeTopology) -> Facts:
    return {
        "rails": {
            rail.device.name: f"{rail.distance} of {' '.join(rail.gpus)}" if rail.gpus else "no GPU"
            for rail in rails(topology)
        },
        "best_devices": {gpu: device.name for gpu, device in best_devices(topology).items()},
    }


def kubelet_facts(topology: NodeTopology) -> Facts:
    """Return the machine as the kubelet's CPU and memory managers see it."""
    machine = MachineInfo.from_topology(topology)
    seen = machine.cpus
    return {
        "cores": groups(ids_of(mask) for mask in seen.cores.values()),
        "sockets": groups(ids_of(mask) for mask in seen.sockets.values()),
        "numa_nodes": {str(node): format_cpulist(ids_of(mask)) for node, mask in seen.numa_nodes.items()},
        "uncore_caches": groups(ids_of(mask) for mask in seen.levels["uncore"].values()),
        "memory_bytes": {str(node.id): node.memory_bytes for node in machine.nodes},
    }


def plan_facts(topology: NodeTopology) -> Facts:
    """Return, for every ready profile, what is planned or the message of the refusal.

    Swap and cgroup v1, which a kubelet may refuse, are the host's matter and not the profile's.
    """
    prepared = replace(topology, swap_bytes=0, cgroup_version=2)
    return {name: _planned(prepared, name) for name in ready_profiles()}


def _planned(topology: NodeTopology, profile: str) -> Facts:
    try:
        plan = plan_node(topology, load_profile(profile), KUBELET_VERSION)
    except PlanError as error:
        return {"refused": str(error)}
    return {
        "reserved_cpus": format_cpulist(plan.cpus.reserved),
        "reserved_memory": {
            str(node.id): format_bytes(node.reserved_memory_bytes)
            for node in plan.memory.numa_nodes
            if node.reserved_memory_bytes
        },
        "notices": sorted({notice.id for notice in plan.notices}),
    }


def _at(numa_node: int | None) -> str:
    return "NUMA node unknown" if numa_node is None else f"NUMA node {numa_node}"
