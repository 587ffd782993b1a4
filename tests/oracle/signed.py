"""A second reading of a plan, from recorded facts and from the settings alone, without code of planning."""

import random
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from numaforge.planning.plan import NodePlan

_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "": 1}


def wishes(seed: int) -> Iterator[dict[str, Any]]:
    """Yield profiles without end, the same ones for a seed."""
    rng = random.Random(seed)  # noqa: S311 - nothing is secret
    while True:
        reserved = {rng.choice(("cores", "cores_per_package", "cores_per_numa_node")): rng.randint(1, 3)}
        yield {
            "extends": rng.choice(("training", "inference-mig", "best-effort-mixed", "cpu-only")),
            "cpus": {"reserved": rng.choice((None, reserved))},
            "memory": {
                "kube_reserved": rng.choice((None, rng.randint(0, 2**30), "333Mi")),
                "system_reserved": rng.choice((None, rng.randint(1, 2**30))),
                "eviction_hard": {"memory.available": rng.choice(("100Mi", "5%", "7.3%", "12345677"))},
                "split": rng.choice(("proportional", "even", None)),
            },
            "hugepages": rng.choice(([], [], [{"size": "2Mi", "count": rng.randint(0, 64)}])),
            "kubelet": {"memory_manager_policy": rng.choice(("None", "Static", None))},
            "tuning": {"swap": False},
        }


def violations(plan: NodePlan, facts: Mapping[str, Any], capacity: int) -> list[str]:
    """Return what is wrong with a plan.

    `facts` are what the kubelet's own code says of the machine: `cores` as lists of CPUs, `memory_bytes` by
    NUMA node; of machines that were laid out (tests/oracle/laid_out.py) more is known. `capacity` is MemTotal
    in bytes.
    """
    settings = plan.kubelet.settings if plan.kubelet else {}
    reserved = _cpus(str(settings.get("reservedSystemCPUs", "")))
    seen = frozenset().union(*(_cpus(core) for core in facts["cores"].split()))
    wrong = []
    told = [*facts["cores"].split(), *facts.get("siblings", "").split()]
    if split := [core for core in told if reserved & _cpus(core) not in (set(), _cpus(core))]:
        wrong.append(f"parts of the cores {', '.join(split)} are reserved")
    if not reserved <= seen or (reserved and reserved == seen):
        wrong.append(f"{sorted(reserved)} are reserved of {sorted(seen)}")
    if settings.get("memoryManagerPolicy") == "Static":
        shares = {entry["numaNode"]: entry["limits"] for entry in settings["reservedMemory"]}
        split_bytes = sum(_bytes(limits["memory"]) for limits in shares.values())
        threshold = _bytes(settings["evictionHard"]["memory.available"])
        kept = [
            _bytes(settings.get(name, {}).get("memory", "0")) for name in ("kubeReserved", "systemReserved")
        ]
        if split_bytes != sum(kept) + threshold:
            wrong.append(f"reservedMemory adds up to {split_bytes}, not to {sum(kept)} + {threshold}")
        if absent := {str(node) for node in shares} - facts["memory_bytes"].keys():
            wrong.append(f"reservedMemory names the NUMA nodes {', '.join(sorted(absent))}")
        wrong += [
            f"NUMA node {node} is to keep {limits['memory']}, which is more than it has"
            for node, limits in shares.items()
            if _bytes(limits["memory"]) > facts["memory_bytes"].get(str(node), 0)
        ]
    if plan.allocatable and plan.allocatable.memory_bytes >= capacity:
        wrong.append(f"{plan.allocatable.memory_bytes} of {capacity} bytes are allocatable")
    return [*wrong, *_more(plan, facts, reserved, capacity)] if "pools" in facts else wrong


def _more(plan: NodePlan, facts: Mapping[str, Any], reserved: frozenset[int], capacity: int) -> Iterator[str]:
    """Say what else is wrong on a machine of which everything is known."""
    for node in {str(node) for node in facts["gpus"]}:
        if (near := _cpus(facts["numa_cpus"].get(node, ""))) and near <= reserved:
            yield f"no CPU is left beside the GPUs of NUMA node {node}"
    pools = {**facts["pools"], **_planned_pools(plan)}
    if unknown := pools.keys() - facts["pools"].keys():
        yield f"there are no pools {sorted(unknown)}"
    for entry in plan.kubelet.settings.get("reservedMemory", ()) if plan.kubelet else ():
        node, kept = entry["numaNode"], _bytes(entry["limits"]["memory"])
        room = facts["memory_bytes"].get(str(node), 0) - _page_bytes(pools, f"/node{node}/")
        if kept > room:
            yield f"NUMA node {node} is to keep {kept} beside its pages, of {room} bytes"
    if plan.allocatable is None or plan.kubelet is None:
        return
    cpus = (facts["capacity"] - len(reserved)) * 1000
    if plan.allocatable.cpu_millis != cpus:
        yield f"{plan.allocatable.cpu_millis} thousandths of a CPU are predicted, not {cpus}"
    kept = plan.memory.kube_reserved_bytes + plan.memory.system_reserved_bytes
    kept += plan.memory.eviction_hard_bytes + _page_bytes(pools, "")
    if plan.allocatable.memory_bytes != max(0, capacity - kept):
        yield f"{plan.allocatable.memory_bytes} bytes are predicted, not {capacity} - {kept}"


def _planned_pools(plan: NodePlan) -> dict[str, int]:
    """Return the planned pages by the path of their number, as Documentation/mm/hugetlbpage has it."""
    places: dict[int | None, str] = {None: "/sys/kernel/mm"}
    places |= {node.id: f"/sys/devices/system/node/node{node.id}" for node in plan.memory.numa_nodes}
    return {
        f"{places[pool.numa_node]}/hugepages/hugepages-{_bytes(pool.size) // 1024}kB/nr_hugepages": pool.pages
        for pool in plan.hugepages.pools
    }


def _page_bytes(pools: Mapping[str, int], part: str) -> int:
    kib = re.compile(r"hugepages-(\d+)kB")
    return sum(int(kib.findall(path)[0]) * 1024 * pages for path, pages in pools.items() if part in path)


def _cpus(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _bytes(text: str) -> Fraction:
    number = text.rstrip("KMGTikm")
    return Fraction(number) * _UNITS[text[len(number) :]]
