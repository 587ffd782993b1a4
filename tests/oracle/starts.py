"""Random settings of the resource managers for a machine: they add up, unless faults are asked for."""

from collections.abc import Mapping
from random import Random
from typing import Any

from numaforge.lib.cpulist import format_cpulist
from tests.fixtures.tables import tables

FAULTS = tables(__file__)["faults"]

MIB = 2**20
_OPTIONS = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
)
_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def resource_settings(random: Random, machine: Mapping[str, Any], *, faults: bool) -> dict[str, Any]:
    """Return the settings that decide about CPUs, memory and devices; with `faults`, one in four has one."""
    kube, system, eviction = (
        random.choice((100, 412)),
        random.choice((0, 100, 1000)),
        random.choice((100, 512)),
    )
    settings: dict[str, Any] = {
        "failCgroupV1": False,
        "cpuManagerPolicy": random.choice(("none", "static", "static", "static", "static")),
        "topologyManagerPolicy": random.choice(_POLICIES),
        "topologyManagerScope": random.choice(("container", "pod")),
        "kubeReserved": {"memory": f"{kube}Mi"},
        "evictionHard": {"memory.available": f"{eviction}Mi"},
        "featureGates": {"CPUManagerPolicyAlphaOptions": True},
    }
    if system:
        settings["systemReserved"] = {"memory": f"{system}Mi"}
    _reserve_cpus(random, machine, settings)
    if settings["cpuManagerPolicy"] == "static":
        chosen = random.sample(_OPTIONS, random.choices((0, 1, 2), (40, 40, 20))[0])
        if chosen:
            settings["cpuManagerPolicyOptions"] = dict.fromkeys(chosen, "true")
    if random.random() < 0.2:
        settings["topologyManagerPolicyOptions"] = {"prefer-closest-numa-nodes": "true"}
    if random.random() < 0.6:
        settings["memoryManagerPolicy"] = "Static"
        settings["reservedMemory"] = _split(random, machine, kube + system + eviction)
    if faults and random.random() < 0.25:
        _spoil(random, settings)
    return settings


def _reserve_cpus(random: Random, machine: Mapping[str, Any], settings: dict[str, Any]) -> None:
    cores = [core["threads"] for node in machine["numa"] for core in node["cores"]]
    kind = random.random()
    if kind < 0.6:
        firsts = [node["cores"][0]["threads"] for node in machine["numa"] if node["cores"]]
        chosen = (
            firsts
            if random.random() < 0.5
            else random.sample(cores, random.randint(1, max(1, len(cores) // 4)))
        )
        settings["reservedSystemCPUs"] = format_cpulist(frozenset(cpu for core in chosen for cpu in core))
    elif kind < 0.8:
        settings["kubeReserved"]["cpu"] = random.choice(("500m", "1", "1500m", "3"))
    else:
        cpus = [cpu for core in cores for cpu in core]
        settings["reservedSystemCPUs"] = format_cpulist(
            frozenset(random.sample(cpus, min(len(cpus), random.randint(1, 3))))
        )


def _split(random: Random, machine: Mapping[str, Any], total: int) -> list[dict[str, Any]]:
    nodes = [node["id"] for node in machine["numa"] if node["cores"]]
    used = nodes if random.random() < 0.7 else [random.choice(nodes)]
    share, rest = divmod(total, len(used))
    return [
        {"numaNode": node, "limits": {"memory": f"{share + (rest if node == used[0] else 0)}Mi"}}
        for node in used
    ]


def _spoil(random: Random, settings: dict[str, Any]) -> None:
    name, value = random.choice(FAULTS)
    settings[name] = value
