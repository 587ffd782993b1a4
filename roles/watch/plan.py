"""How the node watches itself, and where it reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from numaforge.kubelet_minors.flags import kubeconfig_path, registered_name
from numaforge.lib.reasons import Reasoned, Reasons
from numaforge.roles.watch.section import DIRECTORY

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.profile import NodeProfile


@dataclass(frozen=True)
class WatchedGpu:
    """A GPU that must be present; `uuid` is None without NVML, `numa_node` where the firmware names none."""

    pci_address: str
    uuid: str | None = None
    numa_node: int | None = None


@dataclass(frozen=True)
class WatchPlan:
    """The folder of the metrics, and the login for reporting to the Node; None: it does not report there.

    `node` is the Node's name where it differs from the host's.
    """

    directory: str
    kubeconfig: str | None = None
    node: str | None = None
    gpus: tuple[WatchedGpu, ...] = ()

    @property
    def metrics(self) -> str:
        """The path of the metrics file."""
        return str(PurePosixPath(self.directory, "numaforge.prom"))


def plan_watch(machine: NodeTopology, profile: NodeProfile) -> Reasoned[WatchPlan | None]:
    """Return the folder of the metrics, and the login for reporting to the kubelet's Node."""
    wish = profile.watch
    if not wish.enabled:
        return Reasoned(None)
    flags = machine.kubelet.flags if machine.kubelet else ()
    name = registered_name(flags, machine.hostname)
    reports = machine.kubelet is not None and wish.condition is not False
    plan = WatchPlan(
        directory=wish.directory or DIRECTORY,
        kubeconfig=kubeconfig_path(flags) if reports else None,
        node=None if name == (machine.hostname or "").lower() else name,
        gpus=tuple(WatchedGpu(gpu.pci_address, gpu.uuid, gpu.numa_node) for gpu in machine.gpus),
    )
    reasons = Reasons()
    usual = "where node_exporter's textfile collector usually reads"
    reasons.decide(
        "watch.directory", plan.directory, profile.choice("watch.directory") if wish.directory else usual
    )
    if plan.kubeconfig:
        reason = "the kubelet's own login may write the conditions of its Node alone"
        reasons.decide("watch.condition", plan.kubeconfig, reason)
    return reasons.of(plan)
