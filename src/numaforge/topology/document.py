"""The NodeTopology document, schema 1: what `numaforge topology -o json` prints and other programs read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from numaforge.cpulist import format_cpulist, parse_cpulist
from numaforge.errors import NumaforgeError, TopologyError
from numaforge.topology.model import (
    Accelerator,
    Core,
    Cpufreq,
    Gpu,
    HugepagePool,
    KubeletInstall,
    L3Cache,
    Nic,
    NodeTopology,
    NumaNode,
    Package,
    PciLink,
)

SCHEMA = 1


def to_document(topology: NodeTopology) -> dict[str, Any]:
    """Return the topology as JSON data: CPU sets as cpulists, mappings by CPU keyed by cpulist."""
    return {
        "schema": SCHEMA,
        "hostname": topology.hostname,
        "architecture": topology.architecture,
        "kernel": topology.kernel,
        "kernel_cmdline": topology.kernel_cmdline,
        "memory_bytes": topology.memory_bytes,
        "swap_bytes": topology.swap_bytes,
        "cgroup_version": topology.cgroup_version,
        "kubelet": None if topology.kubelet is None else _plain(asdict(topology.kubelet)),
        "cpus": {
            "online": format_cpulist(topology.online),
            "offline": format_cpulist(topology.offline),
            "isolated": format_cpulist(topology.isolated),
        },
        "smt": topology.smt,
        "packages": [{"id": p.id, "cpus": format_cpulist(p.cpus)} for p in topology.packages],
        "numa_nodes": [
            {
                "id": node.id,
                "cpus": format_cpulist(node.cpus),
                "memory_bytes": node.memory_bytes,
                "distances": {str(other): distance for other, distance in node.distances.items()},
                "hugepages": _pools(node.hugepages),
            }
            for node in topology.numa_nodes
        ],
        "cores": [
            {"package": core.package, "numa_node": core.numa_node, "cpus": format_cpulist(core.cpus)}
            for core in topology.cores
        ],
        "l3_caches": [
            {"cpus": format_cpulist(cache.cpus), "size_bytes": cache.size_bytes, "level": cache.level}
            for cache in topology.l3_caches
        ],
        "hugepages": _pools(topology.hugepages),
        "cpufreq": None if topology.cpufreq is None else _cpufreq(topology.cpufreq),
        "gpus": [asdict(gpu) for gpu in topology.gpus],
        "accelerators": [asdict(accelerator) for accelerator in topology.accelerators],
        "nics": [asdict(nic) for nic in topology.nics],
        "pci_paths": {address: list(path) for address, path in topology.pci_paths.items()},
        "os_release": dict(topology.os_release),
        "sysctls": dict(topology.sysctls),
        "transparent_hugepages": dict(topology.transparent_hugepages),
        "previous_plan": topology.previous_plan,
        "unreadable": list(topology.unreadable),
    }


def from_document(document: Mapping[str, Any]) -> NodeTopology:
    """Read a document back.

    Raises TopologyError for another schema, and for a field that is missing or has the wrong shape.
    """
    if not isinstance(document, Mapping) or "schema" not in document:
        raise TopologyError("not a NodeTopology document: it has no schema number")
    if document["schema"] != SCHEMA:
        raise TopologyError(
            f"a NodeTopology document of schema {document['schema']!r}; this numaforge reads schema {SCHEMA}"
        )
    try:
        return _topology(document)
    except KeyError as error:
        raise TopologyError(f"the NodeTopology document lacks the field {error}") from error
    except (TypeError, ValueError, AttributeError, NumaforgeError) as error:
        raise TopologyError(f"the NodeTopology document has a field of the wrong shape: {error}") from error


def _topology(document: Mapping[str, Any]) -> NodeTopology:
    cpus, kubelet, cpufreq = document["cpus"], document["kubelet"], document["cpufreq"]
    return NodeTopology(
        hostname=document["hostname"],
        architecture=document["architecture"],
        kernel=document["kernel"],
        kernel_cmdline=document["kernel_cmdline"],
        memory_bytes=document["memory_bytes"],
        swap_bytes=document["swap_bytes"],
        cgroup_version=document["cgroup_version"],
        online=parse_cpulist(cpus["online"]),
        offline=parse_cpulist(cpus["offline"]),
        isolated=parse_cpulist(cpus["isolated"]),
        packages=tuple(Package(p["id"], parse_cpulist(p["cpus"])) for p in document["packages"]),
        numa_nodes=tuple(
            NumaNode(
                id=node["id"],
                cpus=parse_cpulist(node["cpus"]),
                memory_bytes=node["memory_bytes"],
                distances={int(other): distance for other, distance in node["distances"].items()},
                hugepages=_read_pools(node["hugepages"]),
            )
            for node in document["numa_nodes"]
        ),
        cores=tuple(
            Core(core["package"], core["numa_node"], parse_cpulist(core["cpus"]))
            for core in document["cores"]
        ),
        l3_caches=tuple(
            L3Cache(parse_cpulist(cache["cpus"]), cache["size_bytes"], cache.get("level", 3))
            for cache in document["l3_caches"]
        ),
        cpufreq=None if cpufreq is None else _read_cpufreq(cpufreq),
        gpus=tuple(
            Gpu(**{**gpu, "link": None if gpu["link"] is None else PciLink(**gpu["link"])})
            for gpu in document["gpus"]
        ),
        nics=tuple(Nic(**nic) for nic in document["nics"]),
        pci_paths={address: tuple(path) for address, path in document["pci_paths"].items()},
        kubelet=None if kubelet is None else KubeletInstall(**{**kubelet, "flags": tuple(kubelet["flags"])}),
        os_release=dict(document.get("os_release", {})),
        sysctls=dict(document.get("sysctls", {})),
        transparent_hugepages=dict(document.get("transparent_hugepages", {})),
        previous_plan=document.get("previous_plan"),
        hugepages=_read_pools(document.get("hugepages", {})),
        accelerators=tuple(Accelerator(**found) for found in document.get("accelerators", [])),
        smt=document.get("smt"),
        unreadable=tuple(document.get("unreadable", [])),
    )


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def _pools(pools: Mapping[str, HugepagePool]) -> dict[str, dict[str, int]]:
    return {size: {"total": pool.total, "free": pool.free} for size, pool in pools.items()}


def _read_pools(pools: Mapping[str, Mapping[str, int]]) -> dict[str, HugepagePool]:
    return {size: HugepagePool(pool["total"], pool["free"]) for size, pool in pools.items()}


def _cpufreq(cpufreq: Cpufreq) -> dict[str, Any]:
    return {
        "driver": cpufreq.driver,
        "governors": _by_cpulist(cpufreq.governors),
        "available": list(cpufreq.available),
        "energy_preferences": _by_cpulist(cpufreq.energy_preferences),
        "available_energy_preferences": list(cpufreq.available_energy_preferences),
    }


def _read_cpufreq(cpufreq: Mapping[str, Any]) -> Cpufreq:
    return Cpufreq(
        driver=cpufreq["driver"],
        governors=_by_cpu(cpufreq["governors"]),
        available=tuple(cpufreq["available"]),
        energy_preferences=_by_cpu(cpufreq.get("energy_preferences", {})),
        available_energy_preferences=tuple(cpufreq.get("available_energy_preferences", ())),
    )


def _by_cpulist(values: Mapping[int, str]) -> dict[str, str]:
    cpus: dict[str, list[int]] = {}
    for cpu, value in sorted(values.items()):
        cpus.setdefault(value, []).append(cpu)
    return {format_cpulist(held): value for value, held in cpus.items()}


def _by_cpu(values: Mapping[str, str]) -> dict[int, str]:
    return {cpu: value for cpulist, value in values.items() for cpu in sorted(parse_cpulist(cpulist))}
