"""The part of a KubeletConfiguration that decides admission, evaluated for one machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, TypeVar

from numaforge.kubelet.admission.assignment import CPU_OPTION_NAMES, CpuOptions
from numaforge.kubelet.admission.demand import Gates
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.masks import ids_of, mask_of
from numaforge.kubelet.admission.merge import SINGLE_NUMA_NODE
from numaforge.kubelet.config.defaults import with_eviction_defaults
from numaforge.kubelet.config.gates import enabled
from numaforge.kubelet.config.reservations import ReservationError, parse_thresholds
from numaforge.kubelet.findings import fault
from numaforge.kubelet_minors.options import (
    ALIGN_BY_SOCKET,
    CPU_MANAGER_POLICIES,
    DEFAULT_MAX_NUMA_NODES,
    MAX_ALLOWABLE_NUMA_NODES,
    MEMORY_MANAGER_POLICIES,
    PREFER_CLOSEST_NUMA,
    TOPOLOGY_MANAGER_POLICIES,
    TOPOLOGY_MANAGER_SCOPES,
    forbidden_pairs,
)
from numaforge.kubelet_minors.values.numbers import truth
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import KubeletConfigError, NumaforgeError
from numaforge.lib.quantity import Quantity, parse_bytes, parse_quantity

T = TypeVar("T")

NONE = "none"
STATIC = "static"
CLOSEST_NUMA_PANIC = "panic: runtime error: index out of range"
_MEMORY_SIGNAL = "memory.available"
_DEFAULT_MAX_PODS = 110
# From this minor on the feature gate SidecarContainers is on, and then gone.
_FIRST_MINOR_OF_SIDECARS = 29


@dataclass(frozen=True)
class Settings:
    """Admission's settings; CPU sets are bitmasks, memory in bytes, `reserved_cpu_milli` in 1/1000 CPU.

    `explicit_reserved_cpus` is the set of reservedSystemCPUs (0: unset, the policy picks its own).
    `reserved_memory` maps NUMA node -> resource -> bytes; `reserved_bytes` is the reservation of the whole
    node.
    """

    cpu_policy: str
    cpu_options: CpuOptions
    explicit_reserved_cpus: int
    reserved_cpu_milli: int
    memory_policy: str
    reserved_memory: Mapping[int, Mapping[str, int]]
    reserved_bytes: int
    topology_policy: str
    topology_scope: str
    prefer_closest_numa: bool
    max_pods: int
    gates: Gates = field(default_factory=Gates)
    minor: int = LATEST_MINOR  # whose rules apply
    notice: str | None = None  # that the kubelet is newer than these rules

    @property
    def reserved_cpu_count(self) -> int:
        """The number of reserved CPUs as the CPU manager counts them: rounded up."""
        return -(-self.reserved_cpu_milli // 1000)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], machine: MachineInfo, version: KubeletVersion | None = None
    ) -> "Settings":
        """Read an effective KubeletConfiguration (drop-ins and flags merged in; defaults may be missing).

        `version` is the kubelet's; None stands for the newest known.

        Raises KubeletConfigError, with the kubelet's message where it has one, for a configuration that no
        kubelet could start with; it does not check for everything that would prevent a start.
        """
        if not isinstance(config, Mapping):
            raise KubeletConfigError("the kubelet configuration is not a mapping")
        explicit = _reserved_cpus(config, machine)
        cpu_milli = 1000 * explicit.bit_count() or ceil(1000 * _reserved(config, "cpu"))
        most, per_core = int(config.get("maxPods") or _DEFAULT_MAX_PODS), int(config.get("podsPerCore") or 0)
        settings = cls(
            cpu_policy=_one_of(config, "cpuManagerPolicy", NONE, CPU_MANAGER_POLICIES),
            cpu_options=_cpu_options(config),
            explicit_reserved_cpus=explicit,
            reserved_cpu_milli=cpu_milli,
            memory_policy=_one_of(config, "memoryManagerPolicy", "None", MEMORY_MANAGER_POLICIES),
            reserved_memory=_reserved_memory(config, machine),
            reserved_bytes=ceil(_reserved(config, "memory"))
            + hard_eviction_bytes(config, machine.memory_bytes),
            topology_policy=_one_of(config, "topologyManagerPolicy", NONE, TOPOLOGY_MANAGER_POLICIES),
            topology_scope=_one_of(config, "topologyManagerScope", "container", TOPOLOGY_MANAGER_SCOPES),
            prefer_closest_numa=_prefers_closest(config, machine),
            max_pods=min(most, per_core * machine.cpus.num_cpus) if per_core > 0 else most,
            gates=_gates(config, version or KubeletVersion(LATEST_MINOR)),
            minor=version.rules_minor if version else LATEST_MINOR,
            notice=version.notice if version else None,
        )
        if settings.cpu_policy == STATIC and cpu_milli == 0:
            raise KubeletConfigError(
                "[cpumanager] unable to determine reserved CPU resources for static policy",
                where="reservedSystemCPUs",
                remedy="set reservedSystemCPUs, or cpu in kubeReserved or systemReserved",
            )
        return settings


def hard_eviction_bytes(config: Mapping[str, Any], capacity: int) -> int:
    """Return the bytes that the hard eviction threshold reserves on a machine with `capacity` bytes."""
    texts = with_eviction_defaults(config)["evictionHard"]
    if _MEMORY_SIGNAL not in texts:
        return 0
    try:
        thresholds = parse_thresholds({_MEMORY_SIGNAL: str(texts[_MEMORY_SIGNAL])}, LATEST_MINOR)
    except ReservationError as error:
        raise KubeletConfigError(str(error), where=f"evictionHard.{_MEMORY_SIGNAL}") from error
    threshold = thresholds.get(_MEMORY_SIGNAL)
    return threshold.of(Quantity(Fraction(capacity), "BinarySI")).ceiling() if threshold else 0


def closest_numa_panic(policy: str, machine: MachineInfo) -> str | None:
    """Return why a kubelet with prefer-closest-numa-nodes panics on a machine, None where it does not.

    pkg/kubelet/cm/topologymanager/numa_info.go, CalculateAverageFor, up to 1.37: it looks up by id what
    cAdvisor lists by position.
    """
    ids = sorted(node.id for node in machine.nodes)
    if policy in (NONE, SINGLE_NUMA_NODE) or ids == list(range(len(ids))):
        return None
    gaps = format_cpulist(frozenset(ids))
    return f"the ids of the NUMA nodes have gaps ({gaps}), and {PREFER_CLOSEST_NUMA} expects none"


def _one_of(config: Mapping[str, Any], key: str, default: str, accepted: tuple[str, ...]) -> str:
    value = config.get(key) or default
    if value not in accepted:
        raise KubeletConfigError(
            f'unknown policy: "{value}"' if key.endswith("Policy") else f'unknown scope: "{value}"',
            where=key,
            remedy=f"one of {', '.join(accepted)}",
        )
    return str(value)


def _cpu_options(config: Mapping[str, Any]) -> CpuOptions:
    options = config.get("cpuManagerPolicyOptions") or {}
    chosen = {}
    for option, value in options.items():
        path = f"cpuManagerPolicyOptions.{option}"
        if option not in CPU_OPTION_NAMES:
            remedy = f"one of {', '.join(sorted(CPU_OPTION_NAMES))}"
            raise _config_error("NF206", path=path, manager="CPU", option=f'"{option}"', remedy=remedy)
        chosen[option] = _boolean(value, path)
    for pair in forbidden_pairs(KubeletVersion(LATEST_MINOR)):
        if chosen.get(pair.first) and chosen.get(pair.second):
            raise _config_error("NF209", first=pair.first, second=pair.second)
    if chosen.get(ALIGN_BY_SOCKET) and config.get("topologyManagerPolicy") == SINGLE_NUMA_NODE:
        raise _config_error("NF210", "single NUMA node")
    return CpuOptions.of(chosen)


def _config_error(rule: str, name: str = "main", /, **values: object) -> KubeletConfigError:
    refused = fault(rule, name, **values)
    return KubeletConfigError(refused.evidence, where=refused.where, remedy=refused.remedy)


def _boolean(value: Any, where: str) -> bool:
    parsed = truth(value)
    if parsed is None:
        raise KubeletConfigError(
            f'bad value "{value}"', where=where, remedy='write "true" or "false", in quotes'
        )
    return parsed


def _reserved_cpus(config: Mapping[str, Any], machine: MachineInfo) -> int:
    text = config.get("reservedSystemCPUs") or ""
    reserved = mask_of(_located(parse_cpulist, str(text), "reservedSystemCPUs"))
    if absent := reserved & ~machine.cpus.cpus:
        shown, online, off = (format_cpulist(ids_of(cpus)) for cpus in (reserved, machine.cpus.cpus, absent))
        raise _config_error("NF201", text=shown, online=online, absent=off)
    return reserved


def _reserved(config: Mapping[str, Any], resource: str) -> Fraction:
    """Return what kubeReserved and systemReserved have of a resource together."""
    total = Fraction(0)
    for key in ("kubeReserved", "systemReserved"):
        value = (config.get(key) or {}).get(resource)
        total += 0 if value is None else _located(parse_quantity, str(value), f"{key}.{resource}")
    return total


def _reserved_memory(config: Mapping[str, Any], machine: MachineInfo) -> dict[int, dict[str, int]]:
    node_ids = {node.id for node in machine.nodes}
    reserved: dict[int, dict[str, int]] = {}
    entries = config.get("reservedMemory") if config.get("memoryManagerPolicy") == "Static" else ()
    for index, entry in enumerate(entries or ()):
        node = entry.get("numaNode")
        if node not in node_ids:
            raise _config_error("NF214", index=index, node=node, nodes=format_cpulist(node_ids))
        for resource, size in (entry.get("limits") or {}).items():
            reserved.setdefault(node, {})[resource] = _located(
                parse_bytes, str(size), f"reservedMemory[{index}].limits.{resource}"
            )
    return reserved


def _prefers_closest(config: Mapping[str, Any], machine: MachineInfo) -> bool:
    if (config.get("topologyManagerPolicy") or NONE) == NONE:
        return False
    options = config.get("topologyManagerPolicyOptions") or {}
    closest = _boolean(options.get(PREFER_CLOSEST_NUMA, "false"), "topologyManagerPolicyOptions")
    if closest and not machine.tells_distances:
        raise _config_error("NF210", "distances")
    panic = closest_numa_panic(config["topologyManagerPolicy"], machine)
    if closest and panic:
        refused = fault("NF210", "distances by id", reason=panic)
        evidence = f"{CLOSEST_NUMA_PANIC}: {panic}"
        raise KubeletConfigError(evidence, where=refused.where, remedy=refused.remedy)
    limit = int(options.get(MAX_ALLOWABLE_NUMA_NODES, DEFAULT_MAX_NUMA_NODES))
    if (count := len(machine.nodes)) > limit:
        raise _config_error("NF211", limit=limit, count=count)
    return closest


def _gates(config: Mapping[str, Any], version: KubeletVersion) -> Gates:
    feature_gates = config.get("featureGates") or {}
    return Gates(
        pod_level_resources=enabled(version, feature_gates, "PodLevelResources"),
        pod_level_resource_managers=enabled(version, feature_gates, "PodLevelResourceManagers"),
        sidecars=version.minor >= _FIRST_MINOR_OF_SIDECARS
        or enabled(version, feature_gates, "SidecarContainers"),
        minor=version.rules_minor,
    )


def _located(read: Callable[[str], T], text: str, where: str) -> T:
    try:
        return read(text)
    except NumaforgeError as error:
        raise KubeletConfigError(error.message, where=where, remedy=error.remedy) from error
