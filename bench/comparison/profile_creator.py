"""The published rules of OpenShift's Performance Profile Creator, to set beside plans of ours.

Written from github.com/openshift/cluster-node-tuning-operator at d2394aa (2026-08-21), of which each function
names its source below pkg/performanceprofile. It shares no code with it, none with planning. `PUBLISHED` are
the results in its repository; tests/unit/test_docs_comparison.py holds `reserved_cpus` to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIB = 2**20
_KEPT_MIB, _THRESHOLD_MIB = 500, 100

NumaNodes = Sequence[Sequence[Sequence[int]]]
"""NUMA nodes by id, of each its cores by their lowest thread, of each core its threads."""


class RefusedError(Exception):
    """What the tool ends with."""


@dataclass(frozen=True)
class Published:
    """A result in the tool's repository: `reserved` is a list of CPUs, or the message of a refusal."""

    source: str
    machine: str
    count: int
    reserved: str
    split: bool = False
    disable_ht: bool = False


_GOLDEN = "test/e2e/performanceprofile/testdata/ppc-expected-profiles"
_UNIT = "pkg/performanceprofile/profilecreator/profilecreator_test.go"
ODD = "can't allocate odd number of CPUs from a NUMA Node"
WORKER = "worker1"
SINGLE = "sno"
FOUR = "simple"
_TWENTY = "0,2,4,6,8,10,12,14,16,18,40,42,44,46,48,50,52,54,56,58"

PUBLISHED = (
    *(Published(f"{_GOLDEN}/profile{name}.yaml", WORKER, 4, "0,2,40,42") for name in ("1", "1a", "1b", "1c")),
    *(Published(f"{_GOLDEN}/profile{name}.yaml", SINGLE, 1, "0") for name in ("2", "2a", "2b")),
    *(
        Published(f"{_GOLDEN}/profile{name}.yaml", WORKER, 5, "0-4", split=True, disable_ht=True)
        for name in ("3", "3a", "3b", "3c")
    ),
    *(
        Published(
            f"{_GOLDEN}/profile{name}.yaml", WORKER, 12, "0,2,4,6,8,10,12,14,16,18,20,22", disable_ht=True
        )
        for name in ("4", "4a", "4b", "4c")
    ),
    *(
        Published(f"{_GOLDEN}/profile{name}.yaml", WORKER, 4, "0-1,40-41", split=True)
        for name in ("5", "5a", "5b", "6")
    ),
    Published(_UNIT, WORKER, 20, _TWENTY),
    Published(_UNIT, WORKER, 20, "0-9,40-49", split=True),
    Published(_UNIT, WORKER, 20, "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38", disable_ht=True),
    Published(_UNIT, WORKER, 20, "0-19", split=True, disable_ht=True),
    Published(_UNIT, WORKER, 21, ODD),
    Published(_UNIT, WORKER, 21, ODD, split=True),
    Published(_UNIT, WORKER, 11, "0,2,4,6,8,10,12,14,16,18,20", disable_ht=True),
    Published(_UNIT, WORKER, 2, "0-1", split=True, disable_ht=True),
    Published(_UNIT, FOUR, 8, "0-3,8-11"),
    Published(_UNIT, FOUR, 8, "0,4,8,12,16,20,24,28", split=True),
)


def machine_of(name: str) -> NumaNodes:
    """Return one of the machines of which results are published."""
    if name == SINGLE:
        return [[(cpu,) for cpu in range(12)]]
    if name == FOUR:
        # "A simple cpu architecture to see algorithm easely": two sockets, each with two NUMA nodes.
        return [[(first + n, first + n + 8) for n in range(4)] for first in (0, 4, 16, 20)]
    return [[(cpu, cpu + 40) for cpu in range(first, 40, 2)] for first in (0, 1)]


def reserved_cpus(
    nodes: NumaNodes, count: int, *, split: bool = False, disable_ht: bool = False
) -> frozenset[int]:
    """Return the CPUs that the tool reserves.

    profilecreator/profilecreator.go: CalculateCPUSets, getCPUsSequentially, getCPUsSplitAcrossNUMA. Raises
    RefusedError.
    """
    smt = any(len(core) > 1 for node in nodes for core in node)
    if disable_ht:
        nodes, smt = [[core[:1] for core in node] for node in nodes], False
    total = sum(len(core) for node in nodes for core in node)
    if not 0 < count < total:
        raise RefusedError(f"please specify the reserved CPU count in the range [1,{total - 1}]")
    taken: list[int] = []
    for node, most in zip(nodes, _limits(len(nodes), count, split=split), strict=True):
        if most % 2 and smt:
            raise RefusedError(ODD)
        taken += [cpu for core in node for cpu in core][: max(0, most - len(taken))]
    return frozenset(taken)


def _limits(nodes: int, count: int, *, split: bool) -> list[int]:
    """Return how many CPUs may be taken once each NUMA node had its turn."""
    if not split:
        return [count] * nodes
    each, rest = divmod(count, nodes)
    limits: list[int] = []
    for number in range(nodes):
        most = (number + 1) * each + nodes - rest if rest else (limits[-1] if limits else 0) + each
        rest -= rest > 0
        limits.append(most)
    return limits


def refuse_policy(policy: str, *, split: bool) -> None:
    """Raise RefusedError where the tool does not split: profilecreator/cmd/root.go, line 221."""
    if split and policy == "single-numa-node":
        raise RefusedError(
            "not appropriate to split reserved CPUs in case of topology-manager-policy: single-numa-node"
        )


def kubelet_settings(reserved: str, policy: str) -> Mapping[str, Any]:
    """Return what the operator has the kubelet read.

    controller/performanceprofile/components/kubeletconfig/kubeletconfig.go, lines 27-45 and 122-233:
    constants, and all of reservedMemory on NUMA node 0.
    """
    settings: dict[str, Any] = {
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "5s",
        "reservedSystemCPUs": reserved,
        "topologyManagerPolicy": policy,
        "kubeReserved": {"memory": f"{_KEPT_MIB}Mi"},
        "systemReserved": {"memory": f"{_KEPT_MIB}Mi"},
        "evictionHard": {
            "memory.available": f"{_THRESHOLD_MIB}Mi",
            "nodefs.available": "10%",
            "imagefs.available": "15%",
            "nodefs.inodesFree": "5%",
        },
    }
    if policy in ("restricted", "single-numa-node"):
        kept = f"{2 * _KEPT_MIB + _THRESHOLD_MIB}Mi"
        settings["memoryManagerPolicy"] = "Static"
        settings["reservedMemory"] = [{"numaNode": 0, "limits": {"memory": kept}}]
    if policy == "single-numa-node":
        settings["cpuManagerPolicyOptions"] = {"full-pcpus-only": "true"}
    return settings
