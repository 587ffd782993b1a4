"""Rules about dynamic resource allocation: two allocators of the same CPUs, or halves of one pod.

Sources: kubernetes-sigs/dra-driver-cpu (README; issues 134, 140), kubernetes/website#56232.
"""

from collections.abc import Iterator

from numaforge.findings import Severity
from numaforge.findings.engine import Applicability, MachineRule, Seen, applies
from numaforge.findings.userland import scope
from numaforge.lib.kubernetes_objects import CPU_DRIVER
from numaforge.machine.topology.model import NodeTopology

_GPU_DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")
_SOCKETS = "sockets in /var/lib/kubelet/plugins_registry"


@applies("with a driver of dynamic resource allocation", within=scope.with_kubelet)
def _with_drivers(machine: NodeTopology) -> Applicability:
    drivers = scope.userland(machine).claim_drivers
    if drivers is None:
        return Applicability(None, "the kubelet's plugins were not captured")
    if not drivers:
        return Applicability(False, "no driver of dynamic resource allocation has registered")
    return Applicability(True, f"registered: {', '.join(drivers)}")


def _cpu_policy(machine: NodeTopology) -> str | None:
    settings = scope.kubelet_settings(machine)
    return None if settings is None else str(settings.get("cpuManagerPolicy") or "none")


def _both_hand_out_cpus(machine: NodeTopology) -> Iterator[Seen]:
    if CPU_DRIVER not in (scope.userland(machine).claim_drivers or ()):
        return
    policy = _cpu_policy(machine)
    if policy is None:
        yield Seen(unknown="the kubelet's configuration cannot be read")
    elif policy == "static":
        yield Seen(f"{CPU_DRIVER} has registered, and the kubelet's cpuManagerPolicy is static", CPU_DRIVER)


def _gpus_apart_from_cpus(machine: NodeTopology) -> Iterator[Seen]:
    policy = _cpu_policy(machine)
    for driver in _GPU_DRIVERS:
        if driver not in (scope.userland(machine).claim_drivers or ()):
            continue
        if policy is None:
            yield Seen(unknown="the kubelet's configuration cannot be read")
        elif policy == "static":
            yield Seen(f"{driver} has registered, and the kubelet's cpuManagerPolicy is static", driver)


RULES: tuple[MachineRule, ...] = (
    MachineRule(
        "NH401",
        Severity.ERROR,
        "the CPU driver and the static CPU manager hand out the same CPUs",
        _with_drivers,
        _SOCKETS,
        "keep one of them: `kubelet.resource_engine: dra` in the profile, or remove the driver from the "
        "node: its pool is empty, or what it pins is undone (kubernetes-sigs/dra-driver-cpu#134, #140)",
        _both_hand_out_cpus,
    ),
    MachineRule(
        "NH402",
        Severity.WARNING,
        "GPUs come by claims and CPUs from the static CPU manager",
        _with_drivers,
        _SOCKETS,
        "a pod's CPUs may be far from its GPUs, for the topology manager has no hints of claims "
        "(kubernetes/website#56232): `kubelet.resource_engine: dra`, or let a device plugin have the GPUs",
        _gpus_apart_from_cpus,
    ),
)
