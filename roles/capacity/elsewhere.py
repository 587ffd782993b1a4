"""What GKE, EKS, AKS and kubespray would reserve on the same machine: their published formulas.

Each adds the kubelet's hard eviction threshold, which all leave at 100Mi.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ElsewhereReserved:
    """What another maker of nodes reserves on such a machine, its eviction threshold apart."""

    name: str  # "GKE"
    cpu_millis: int
    memory_bytes: int
    source: str


MIB = 2**20
GIB = 2**30

_MB = 10**6  # AKS counts in these

# Up to so many bytes, so many percent of what lies between; the last has no end.
_GKE_MEMORY = ((4 * GIB, 25), (8 * GIB, 20), (16 * GIB, 10), (128 * GIB, 6), (None, 2))
_GKE_SMALL = GIB  # below this, _GKE_LEAST
_GKE_LEAST = 255 * MIB

# Up to so many CPUs, so many hundredths of a percent of each.
_CPU_STEPS = ((1, 600), (2, 100), (4, 50), (None, 25))

# CPUs and millicores; the last slope goes on.
_AKS_CPU = ((1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740))

# kube_reserved and system_reserved together, of a worker.
KUBESPRAY_CPU_MILLIS = 100 + 500
KUBESPRAY_MEMORY = (256 + 512) * MIB


def elsewhere(cpus: int, memory_bytes: int, max_pods: int) -> tuple[ElsewhereReserved, ...]:
    """Return what each would reserve of a node with so many CPUs (threads), bytes, and pods at most."""
    return (
        ElsewhereReserved(
            "GKE",
            step_cpu_millis(cpus),
            gke_memory(memory_bytes),
            "cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes",
        ),
        ElsewhereReserved(
            "EKS",
            step_cpu_millis(cpus),
            eks_memory(max_pods),
            "awslabs/amazon-eks-ami: nodeadm/internal/kubelet/config.go",
        ),
        ElsewhereReserved(
            "AKS",
            aks_cpu_millis(cpus),
            aks_memory(memory_bytes, max_pods),
            "learn.microsoft.com/azure/aks/node-resource-reservations (AKS 1.29 and later)",
        ),
        ElsewhereReserved(
            "kubespray",
            KUBESPRAY_CPU_MILLIS,
            KUBESPRAY_MEMORY,
            "kubernetes-sigs/kubespray: docs/operations/cgroups.md (kube_reserved and system_reserved: true)",
        ),
    )


def step_cpu_millis(cpus: int) -> int:
    """Return the millicores of GKE and EKS: 6% of the first CPU, 1% of the second, 0.5% of two, then 0.25%.

    EKS rounds each step down, and so is done here.
    """
    return sum(part * rate // 10 for part, rate in _parts(cpus, _CPU_STEPS))


def gke_memory(memory_bytes: int) -> int:
    """Return GKE's bytes: 25% of the first 4 GiB, 20% of 4, 10% of 8, 6% of 112, 2% of the rest."""
    if memory_bytes < _GKE_SMALL:
        return _GKE_LEAST
    return sum(part * rate for part, rate in _parts(memory_bytes, _GKE_MEMORY)) // 100


def eks_memory(max_pods: int) -> int:
    """Return EKS's bytes: 255Mi and 11Mi for each pod, whatever the memory."""
    return (255 + 11 * max_pods) * MIB


def aks_memory(memory_bytes: int, max_pods: int) -> int:
    """Return AKS's bytes: 50 MB and 20 MB for each pod, at most a quarter of the memory."""
    return min((50 + 20 * max_pods) * _MB, memory_bytes // 4)


def aks_cpu_millis(cpus: int) -> int:
    """Return AKS's millicores: its table, with straight lines between the rows and after the last."""
    below = [row for row in _AKS_CPU[:-1] if row[0] <= cpus] or [_AKS_CPU[0]]
    (low, millis), (high, more) = below[-1], _AKS_CPU[len(below)]
    return millis + (max(cpus, low) - low) * (more - millis) // (high - low)


def _parts(amount: int, steps: tuple[tuple[int | None, int], ...]) -> list[tuple[int, int]]:
    """Return how much of the amount is in each step, with the step's rate."""
    parts, below = [], 0
    for end, rate in steps:
        upper = amount if end is None else min(amount, end)
        parts.append((max(0, upper - below), rate))
        below = end or below
    return parts
