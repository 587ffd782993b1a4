"""What a node hands out by claims: the CPU driver's half of `kubelet.resource_engine: dra`, and GPUs.

Sources: kubernetes-sigs/dra-driver-cpu v0.2.0 (README: requirements, driverConfig; issues 8, 45, 46, 134 and
140; pkg/cpuinfo: CPUs that it skips), kubernetes/website#56232 (the topology manager has no hints of
DRA devices), KEP-5004 (DRAExtendedResource).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numaforge.kubelet.admission.inventory import counts_of, inventory_of
from numaforge.kubelet.admission.nvidia_resources import GPU
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.kubernetes_objects import CPU_DRIVER
from numaforge.lib.reasons import Notice, Reasoned, Reasons
from numaforge.machine.topology.model import CpuSet, NodeTopology, Package
from numaforge.machine.topology.runtime import CONTAINERD, CRIO, MICROK8S_CONTAINERD, crio_minor, runtime_unit
from numaforge.roles.kubelet.engine import by_claims

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.kubelet.delivery import KubeletPlan


@dataclass(frozen=True)
class CpuDriverPlan:
    """The CPU driver's (dra.cpu) driverConfig.

    `reserved_cpus` is a cpulist, the kubelet's own reservedSystemCPUs: the driver cannot ask for them
    (kubernetes-sigs/dra-driver-cpu#8).
    """

    device_mode: str  # "grouped", "individual"
    group_by: str  # "numanode", "socket", "machine"
    reserved_cpus: str


@dataclass(frozen=True)
class DraPlan:
    """What claims allocate on a node: CPUs, where the kubelet leaves them to the CPU driver, and GPUs."""

    cpus: CpuDriverPlan | None = None
    gpus: bool = False


FIRST_MINOR_WITH_EXTENDED_RESOURCES = 36  # DRAExtendedResource is on: KEP-5004, beta in 1.36, locked in 1.37
_STAY = "set kubelet.resource_engine: kubelet"
_FIRST_CONTAINERD = 2
_MOST_THREADS = 2  # docs/user/device-attributes.md of the driver
_FIRST_MINOR_OF_CRIO = 30


def plan_dra(
    machine: NodeTopology,
    profile: NodeProfile,
    version: KubeletVersion | None,
    kubelet: KubeletPlan | None,
    reserved: CpuSet,
) -> Reasoned[DraPlan | None]:
    """Return what the node allocates by claims.

    Raises PlanError for a runtime without CDI or NRI, which the CPU driver needs, for settings of a driver
    that is not used, and for a machine on which the CPU driver cannot work.
    """
    wish, reasons, driver = profile.dra, Reasons(), None
    cpus = by_claims(profile.kubelet) and kubelet is not None
    if not by_claims(profile.kubelet):
        _refuse_words_of_no_effect(profile, machine)
        _refuse_static_cpus_beside_the_driver(machine, kubelet)
    if not cpus and wish.gpus != "claims":
        return reasons.of(None)
    if cpus:
        _refuse_wide_cores(machine)
        reasons.notices += _runtime_notices(machine)
        reasons.notices += _mode_notices(profile)
        driver = CpuDriverPlan(
            wish.cpu_device_mode or "grouped", wish.cpu_group_by or "numanode", format_cpulist(reserved)
        )
        _refuse_a_driver_without_cpus(machine, driver)
        _decide_cpus(profile, driver, reasons)
    if wish.gpus == "claims":
        reasons.decide("dra.gpus", "claims", profile.choice("dra.gpus"))
        reasons.notices += _gpu_notices(version, kubelet)
    elif cpus and machine.gpus:
        reasons.notice(
            "gpus-by-device-plugin",
            "the device plugin has the GPUs and the CPU driver the CPUs: no one holds a pod's GPUs and CPUs "
            "together. `dra.gpus: claims` lets a claim ask for both by their PCIe root",
        )
    return reasons.of(DraPlan(driver, wish.gpus == "claims"))


def claims_of(machine: NodeTopology, plan: NodePlan) -> dict[str, int]:
    """Return the number of devices by extended resource that claims serve as planned."""
    if not (plan.dra and plan.dra.gpus and plan.kubelet):
        return {}
    return served_by_claims(machine, KubeletVersion.parse(plan.kubelet.version).minor)


def served_by_claims(machine: NodeTopology, minor: int) -> dict[str, int]:
    """Return the number of devices by extended resource that claims serve where a DRA driver has the GPUs.

    `minor` is that of Kubernetes. NVIDIA's class gpu.nvidia.com has the extended resource nvidia.com/gpu, for
    whole GPUs only.
    """
    if minor < FIRST_MINOR_WITH_EXTENDED_RESOURCES:
        return {}
    counts = counts_of(inventory_of(machine))
    return {GPU: counts[GPU]} if GPU in counts else {}


def placed_cpus(machine: NodeTopology) -> CpuSet:
    """Return the online CPUs whose topology the CPU driver knows: it skips all others.

    Each has a NUMA node, a package whose id is not -1, and a cache (populateTopologyInfo of pkg/cpuinfo).
    Only the group of the whole machine includes other CPUs.
    """
    on_numa_nodes = {cpu for unit in machine.numa_nodes for cpu in unit.cpus}
    in_packages = {cpu for unit in driver_packages(machine) if unit.id >= 0 for cpu in unit.cpus}
    return frozenset(on_numa_nodes & in_packages & {cpu for unit in machine.l3_caches for cpu in unit.cpus})


def driver_packages(machine: NodeTopology) -> tuple[Package, ...]:
    """Return the packages as the CPU driver distinguishes them: by the kernel's ids alone."""
    return machine.packages if machine.kubelet_packages is None else machine.kubelet_packages


def _refuse_a_driver_without_cpus(machine: NodeTopology, driver: CpuDriverPlan) -> None:
    if (driver.device_mode, driver.group_by) != ("grouped", "machine") and not placed_cpus(machine):
        raise PlanError(
            "the CPU driver offers no CPUs here: it skips CPUs whose NUMA node, package or caches the kernel "
            "does not report",
            where="kubelet.resource_engine",
            remedy=f"{_STAY}, or set dra.cpu_group_by: machine",
        )


def _refuse_words_of_no_effect(profile: NodeProfile, machine: NodeTopology) -> None:
    keys = [name for name in ("cpu_device_mode", "cpu_group_by") if getattr(profile.dra, name) is not None]
    if keys:
        use = "set kubelet.resource_engine: dra, or " if _widest_core(machine) <= _MOST_THREADS else ""
        raise PlanError(
            "has no effect: the kubelet assigns the CPUs, not a CPU driver",
            where=f"dra.{keys[0]}",
            remedy=f"{use}leave dra.{keys[0]} out",
        )


def _refuse_static_cpus_beside_the_driver(machine: NodeTopology, kubelet: KubeletPlan | None) -> None:
    settings = kubelet.settings if kubelet else {}
    if settings.get("cpuManagerPolicy") == "static" and CPU_DRIVER in machine.claim_drivers:
        raise PlanError(
            f"the CPU driver {CPU_DRIVER} has registered, and the kubelet would hand out "
            "the same CPUs by its static policy",
            where="kubelet.resource_engine",
            remedy="remove the driver from the node, and with it its socket in "
            "/var/lib/kubelet/plugins_registry; or set kubelet.resource_engine: dra",
        )


def _widest_core(machine: NodeTopology) -> int:
    return max((len(core.cpus) for core in machine.cores), default=0)


def _refuse_wide_cores(machine: NodeTopology) -> None:
    if (widest := _widest_core(machine)) > _MOST_THREADS:
        raise PlanError(
            f"the CPU driver does not start on a machine with {widest} threads to a core; it knows "
            f"{_MOST_THREADS} at most",
            where="kubelet.resource_engine",
            remedy=_STAY,
        )


def _mode_notices(profile: NodeProfile) -> Iterator[Notice]:
    if profile.dra.cpu_device_mode == "individual":
        yield Notice(
            "cpu-devices-one-by-one",
            "dra.cpu_device_mode: individual makes a device for each CPU, and large ResourceSlices; the "
            "driver is about to deprecate it (kubernetes-sigs/dra-driver-cpu#322)",
        )
    if profile.dra.cpu_group_by == "machine":
        yield Notice(
            "cpus-chosen-outside",
            "dra.cpu_group_by: machine needs a scheduler of one's own that chooses the CPUs of each claim "
            "(the driver's `allocator: external`)",
        )


def _decide_cpus(profile: NodeProfile, driver: CpuDriverPlan, reasons: Reasons) -> None:
    decisions = {
        "cpu_device_mode": (driver.device_mode, "one device for each group, so that a slice stays small"),
        "cpu_group_by": (driver.group_by, "the CPUs of a claim are on one NUMA node"),
    }
    for name, (value, reason) in decisions.items():
        chosen = getattr(profile.dra, name) is not None
        reasons.decide(f"dra.{name}", value, profile.choice(f"dra.{name}") if chosen else reason)
    reasons.decide(
        "dra.reserved_cpus",
        driver.reserved_cpus or "none",
        "the kubelet's own, which the driver cannot ask for (kubernetes-sigs/dra-driver-cpu#8)",
    )


def _gpu_notices(version: KubeletVersion | None, kubelet: KubeletPlan | None) -> Iterator[Notice]:
    if version is not None and version.minor < FIRST_MINOR_WITH_EXTENDED_RESOURCES:
        yield Notice(
            "pods-name-claims",
            f"kubelet {version}: a pod that asks for nvidia.com/gpu stays Pending without a device plugin; "
            f"it has to name a ResourceClaim. From 1.{FIRST_MINOR_WITH_EXTENDED_RESOURCES} on a claim may "
            "serve it (DRAExtendedResource)",
        )
    settings = kubelet.settings if kubelet else {}
    if settings.get("cpuManagerPolicy") == "static":
        yield Notice(
            "claims-beside-static-cpus",
            "GPUs come by claims and CPUs from the kubelet's static policy: the topology manager has no "
            "hints of claims, so a pod's CPUs may be far from its GPUs, whatever the policy "
            "(kubernetes/website#56232). `kubelet.resource_engine: dra` lets one claim ask for both",
        )


def _runtime_notices(machine: NodeTopology) -> Iterator[Notice]:
    """Yield a notice for an unknown runtime; raise PlanError for one that the CPU driver cannot work with.

    The driver pins containers through NRI and names their devices by CDI: both are on by default from
    containerd 2.0 and CRI-O 1.30.
    """
    unit = runtime_unit(machine)
    if unit == CRIO:
        minor = crio_minor(machine)
        if minor is None:
            yield _unknown("CRI-O", f"1.{_FIRST_MINOR_OF_CRIO}")
        elif minor < _FIRST_MINOR_OF_CRIO:
            raise PlanError(
                f"the CPU driver needs NRI and CDI, which CRI-O has on from 1.{_FIRST_MINOR_OF_CRIO} on; "
                f"here is 1.{minor}",
                where="kubelet.resource_engine",
                remedy=f"upgrade CRI-O, or {_STAY}",
            )
        return
    containerd = machine.userland.containerd if machine.userland else None
    if (
        unit not in (CONTAINERD, MICROK8S_CONTAINERD, None)
        or containerd is None
        or containerd.version is None
    ):
        yield _unknown("the container runtime", f"containerd {_FIRST_CONTAINERD}.0")
        return
    old = int(containerd.version.partition(".")[0]) < _FIRST_CONTAINERD
    lacks = [
        name
        for name, value in (
            ("enable_cdi = true", containerd.cdi),
            ("NRI with disable = false", containerd.nri),
        )
        if value is False or (old and value is not True)
    ]
    if lacks:
        raise PlanError(
            f"the CPU driver needs NRI and CDI, and containerd {containerd.version} runs without: "
            f"{' and '.join(lacks)}",
            where="kubelet.resource_engine",
            remedy=f"set {' and '.join(lacks)} for containerd, or upgrade it to 2.0, where both are on by "
            f"default, or {_STAY}",
        )


def _unknown(runtime: str, needed: str) -> Notice:
    return Notice(
        "runtime-unknown",
        f"the CPU driver needs NRI and CDI, and the version of {runtime} is not known: it has to be "
        f"{needed} at least, with both on",
    )
