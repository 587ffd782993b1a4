"""What allocates CPUs and memory: the kubelet's managers, or drivers of dynamic resource allocation.

The two exclude each other: with the static policy the CPU driver's pool is empty, or its pinning is undone
(kubernetes-sigs/dra-driver-cpu#134, #140).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Notice

if TYPE_CHECKING:
    from numaforge.kubelet_minors.versions import KubeletVersion
    from numaforge.roles.kubelet.section import Kubelet

FIELD = "kubelet.resource_engine"
REASON = "resource_engine: dra; the CPU driver assigns the CPUs"
CAPACITY_GATE = "DRAConsumableCapacity"
POLICIES = {"cpu_manager_policy": "none", "memory_manager_policy": "None", "topology_manager_policy": "none"}
"""The policies of a kubelet that leaves CPUs to a driver, by their key in a profile."""
_FIRST_MINOR = 34
_FIRST_MINOR_WITH_CAPACITY = 36


def by_claims(wish: Kubelet) -> bool:
    """Whether a profile leaves CPUs to a driver of dynamic resource allocation."""
    return wish.resource_engine == "dra"


def require(wish: Kubelet, version: KubeletVersion) -> None:
    """Raise PlanError where a profile contradicts itself, or the kubelet is too old."""
    policies = {name: getattr(wish, name) for name in POLICIES}
    wrong = [f"{name}: {value}" for name, value in policies.items() if value not in (None, POLICIES[name])]
    wrong += [name for name in ("cpu_manager_options", "topology_manager_options") if getattr(wish, name)]
    if wrong:
        field, _, value = wrong[0].partition(": ")
        said_too = f"cannot be {value}" if value else "has no effect"
        raise PlanError(
            f"{said_too} with resource_engine: dra: beside the kubelet's own manager the CPU driver's pool "
            "is empty, or what it pins is undone (kubernetes-sigs/dra-driver-cpu#134, #140)",
            where=f"kubelet.{field}",
            remedy=f"leave kubelet.{field} out, or set {FIELD}: kubelet",
        )
    if version.minor < _FIRST_MINOR:
        raise PlanError(
            f"dra needs Kubernetes 1.{_FIRST_MINOR}, where dynamic resource allocation is stable; the "
            f"kubelet is {version}",
            where=FIELD,
            remedy=f"upgrade the kubelet, or set {FIELD}: kubelet",
        )


def gates(version: KubeletVersion) -> tuple[str, ...]:
    """Return the feature gates that the CPU driver needs and that are off here by default."""
    return (CAPACITY_GATE,) if version.minor < _FIRST_MINOR_WITH_CAPACITY else ()


def notices(version: KubeletVersion) -> Iterator[Notice]:
    """Yield notices of what is lost without the kubelet's managers, and what the cluster must turn on."""
    yield Notice(
        "alignment-by-claims-alone",
        "the kubelet aligns nothing: Guaranteed pods with whole CPUs run on shared ones until they name a "
        "claim of the CPU driver. No driver assigns memory by NUMA node",
    )
    yield Notice(
        "cpu-driver-lacks",
        "the CPU driver may split a core between claims and does not spread one over NUMA nodes: "
        "full-pcpus-only and distribute-cpus-across-numa have no equal "
        "(kubernetes-sigs/dra-driver-cpu#45, #46)",
    )
    for gate in gates(version):
        yield Notice(
            "gate-of-the-control-plane",
            f"{gate} is off by default before 1.{_FIRST_MINOR_WITH_CAPACITY}: turn it on for the API server, "
            "the controller manager and the scheduler, too",
        )
