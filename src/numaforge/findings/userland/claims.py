"""Rules about dynamic resource allocation: two allocators of the same CPUs, or halves of one pod.

Sources: kubernetes-sigs/dra-driver-cpu (README; issues 134, 140), kubernetes/website#56232.
"""

from collections.abc import Iterator

from numaforge.findings.engine import Applicability, Seen, applies
from numaforge.findings.rules import machine_rule
from numaforge.findings.userland import scope
from numaforge.lib.kubernetes_objects import CPU_DRIVER
from numaforge.machine.topology.model import NodeTopology

_GPU_DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")


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


RULES = (
    machine_rule("NH401", _with_drivers, _both_hand_out_cpus),
    machine_rule("NH402", _with_drivers, _gpus_apart_from_cpus),
)
