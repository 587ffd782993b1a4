"""Policies and policy options of the CPU, memory and topology managers, by kubelet minor.

Sources, in each minor's release: policy_options.go below pkg/kubelet/cm/cpumanager and topologymanager,
memory_manager.go below pkg/kubelet/cm/memorymanager, and pkg/kubelet/apis/config/validation/validation.go.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from numaforge.kubelet_minors.tables import CPU_OPTIONS, TOPOLOGY_OPTIONS, state_at, states_at
from numaforge.kubelet_minors.versions import KNOWN_MINORS, KubeletVersion

CPU_MANAGER_POLICIES = ("none", "static")
TOPOLOGY_MANAGER_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
TOPOLOGY_MANAGER_SCOPES = ("container", "pod")
MEMORY_MANAGER_POLICIES = ("None", "Static")

# pkg/kubelet/cm/topologymanager/topology_manager.go: defaultMaxAllowableNUMANodes
DEFAULT_MAX_NUMA_NODES = 8

FULL_PCPUS_ONLY = "full-pcpus-only"
DISTRIBUTE_ACROSS_NUMA = "distribute-cpus-across-numa"
ALIGN_BY_SOCKET = "align-by-socket"
DISTRIBUTE_ACROSS_CORES = "distribute-cpus-across-cores"
STRICT_CPU_RESERVATION = "strict-cpu-reservation"
PREFER_ALIGN_BY_UNCORE_CACHE = "prefer-align-cpus-by-uncorecache"
PREFER_CLOSEST_NUMA = "prefer-closest-numa-nodes"
MAX_ALLOWABLE_NUMA_NODES = "max-allowable-numa-nodes"


class Maturity(StrEnum):
    """The maturity of an option; alpha and beta options need the feature gate of their group."""

    ALPHA = "alpha"
    BETA = "beta"
    STABLE = "stable"


class OptionState(NamedTuple):
    """A policy option as one kubelet minor knows it.

    `gate` is the feature gate that must be enabled, None for a stable option; `gate_default` is its value
    where the configuration does not set it. `kind` is the type of the option's value: "bool" or "int".
    """

    name: str
    maturity: Maturity
    gate: str | None
    gate_default: bool
    kind: str


class ForbiddenPair(NamedTuple):
    """Two CPU manager options that may not both be true, in the order in which the kubelet names them."""

    first: str
    second: str
    since_minor: int


_FORBIDDEN_PAIRS = (
    ForbiddenPair(FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_CORES, 31),
    ForbiddenPair(DISTRIBUTE_ACROSS_NUMA, DISTRIBUTE_ACROSS_CORES, 31),
    ForbiddenPair(PREFER_ALIGN_BY_UNCORE_CACHE, DISTRIBUTE_ACROSS_CORES, 32),
    ForbiddenPair(PREFER_ALIGN_BY_UNCORE_CACHE, DISTRIBUTE_ACROSS_NUMA, 32),
)


def cpu_options(version: KubeletVersion) -> Mapping[str, OptionState]:
    """Return the cpuManagerPolicyOptions that this kubelet knows, by name."""
    return _options_of(version, CPU_OPTIONS, "CPUManagerPolicy")


def topology_options(version: KubeletVersion) -> Mapping[str, OptionState]:
    """Return the topologyManagerPolicyOptions that this kubelet knows, by name."""
    return _options_of(version, TOPOLOGY_OPTIONS, "TopologyManagerPolicy")


def known_versions_of(name: str) -> Mapping[int, Maturity]:
    """Return the maturity of a CPU or topology manager option in each kubelet minor that knows it."""
    history = {**CPU_OPTIONS, **TOPOLOGY_OPTIONS}.get(name)
    states = {minor: state_at(history, minor) for minor in KNOWN_MINORS} if history else {}
    return {minor: Maturity(state) for minor, state in states.items() if state}


def forbidden_pairs(version: KubeletVersion) -> tuple[ForbiddenPair, ...]:
    """Return the pairs of CPU manager options that this kubelet refuses, in the order it checks them."""
    return tuple(pair for pair in _FORBIDDEN_PAIRS if version.rules_minor >= pair.since_minor)


def _options_of(
    version: KubeletVersion, histories: Mapping[str, str], gate_prefix: str
) -> Mapping[str, OptionState]:
    gates = {
        Maturity.ALPHA: (f"{gate_prefix}AlphaOptions", False),
        Maturity.BETA: (f"{gate_prefix}BetaOptions", True),
        Maturity.STABLE: (None, True),
    }
    options = {}
    for name, state in states_at(histories, version.rules_minor).items():
        kind = "int" if name == MAX_ALLOWABLE_NUMA_NODES else "bool"
        options[name] = OptionState(name, Maturity(state), *gates[Maturity(state)], kind)
    return options
