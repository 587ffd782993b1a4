"""Rules about the drivers and plugins that give devices to pods: two for the same CPUs, shared RDMA devices.

Sources: kubernetes-sigs/dra-driver-cpu (README; issues 134, 140), kubernetes/website#56232; rdma-system(8),
k8s-rdma-shared-dev-plugin (ValidateRdmaSystemMode), k8snetworkplumbingwg/rdma-cni.
"""

from collections.abc import Callable, Iterator

from numaforge.findings.engine import Applicability, Scope, Seen, within
from numaforge.findings.rules import machine_rule
from numaforge.findings.userland import scope
from numaforge.lib.kubernetes_objects import CPU_DRIVER
from numaforge.machine.topology.model import NodeTopology, Userland

_GPU_DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")
_MODE = "/sys/module/ib_core/parameters/netns_mode"


@within(scope.with_kubelet)
def _with_drivers(machine: NodeTopology) -> Applicability:
    drivers = scope.userland(machine).claim_drivers
    if drivers is None:
        return Applicability(None, "the kubelet's plugins were not captured")
    if not drivers:
        return Applicability(False, "no driver of dynamic resource allocation has registered")
    return Applicability(True, f"registered: {', '.join(drivers)}")


def _beside_static(machine: NodeTopology, *drivers: str) -> Iterator[Seen]:
    settings = scope.kubelet_settings(machine)
    for driver in drivers:
        if driver not in (scope.userland(machine).claim_drivers or ()):
            continue
        if settings is None:
            yield Seen(unknown="the kubelet's configuration cannot be read")
        elif settings.get("cpuManagerPolicy") == "static":
            yield Seen(f"{driver} has registered, and the kubelet's cpuManagerPolicy is static", driver)


@within(scope.with_kubelet)
def _with_devices(machine: NodeTopology) -> Applicability | None:
    return None if machine.rdma_devices else Applicability(False, "no RDMA device")


def _with(present: str, none: str, is_installed: Callable[[Userland], bool | None]) -> Scope:
    @within(_with_devices)
    def with_it(machine: NodeTopology) -> Applicability:
        installed = is_installed(scope.userland(machine))
        if installed is None:
            return Applicability(None, "an older snapshot did not look for it")
        return Applicability(installed, present if installed else none)

    return with_it


_with_shared_plugin = _with(
    "a pod of the shared RDMA device plugin",
    "no pod of the shared RDMA device plugin",
    lambda userland: userland.rdma_plugin,
)
_with_cni = _with("the RDMA CNI plugin", "no RDMA CNI plugin", lambda userland: userland.rdma_cni)


def _has_mode(mode: str, evidence: str, machine: NodeTopology) -> Iterator[Seen]:
    if machine.rdma_netns is None:
        yield Seen(unknown="the mode was not captured: ib_core is not loaded, or Linux is older than 5.2")
    elif machine.rdma_netns == mode:
        yield Seen(evidence, _MODE)


RULES = (
    machine_rule("NH401", _with_drivers, lambda machine: _beside_static(machine, CPU_DRIVER)),
    machine_rule("NH402", _with_drivers, lambda machine: _beside_static(machine, *_GPU_DRIVERS)),
    machine_rule(
        "NH501",
        _with_shared_plugin,
        lambda machine: _has_mode(
            "exclusive",
            "the mode is exclusive, and a pod of the plugin is here: it ends at each start, and the node has "
            "none of its resources",
            machine,
        ),
    ),
    machine_rule(
        "NH502",
        _with_cni,
        lambda machine: _has_mode(
            "shared", "the mode is shared, and /opt/cni/bin/rdma is installed", machine
        ),
    ),
)
