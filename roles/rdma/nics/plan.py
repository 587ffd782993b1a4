"""How many queues NICs have: as many as the CPUs that may serve them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from numaforge.lib.codec import CpuSet
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Reasoned, Reasons
from numaforge.machine.topology.model import Nic, NodeTopology, RdmaDevice
from numaforge.machine.topology.nics import DEFAULT_ROUTE
from numaforge.roles.interrupts.plan import refuse_without_reserved

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


CHANNELS = "channels"
_FIELD = "nic_queues.combined"


@dataclass(frozen=True)
class NicSetting:
    """A NIC setting that is lost at a boot.

    `nic` is the PCI address for "max_read_request" (bytes), the interface for "trust" ("dscp", "pcp"), "pfc"
    (the priorities: "3,4", or "none") and "channels" (the number of combined channels).
    """

    nic: str
    name: str
    value: str


def plan_nic_queues(
    machine: NodeTopology, profile: NodeProfile, reserved: CpuSet
) -> Reasoned[tuple[NicSetting, ...]]:
    """Return the settings for the number of NIC queues; raises PlanError for a NIC that does not exist."""
    wish = profile.nic_queues
    if wish.combined is None:
        return Reasoned(())
    if wish.combined == "reserved" and not reserved:
        raise refuse_without_reserved(_FIELD)
    count = str(len(reserved) if wish.combined == "reserved" else wish.combined)
    reasons = Reasons()
    names = _interfaces(machine, wish.nics) if wish.nics else _unasked(machine, reasons)
    if names:
        reason = f"{profile.choice(_FIELD)}, on {', '.join(names)}: one queue for each CPU that serves them"
        reasons.decide(_FIELD, count, reason)
    return reasons.of(tuple(NicSetting(name, CHANNELS, count) for name in names))


def _interfaces(topology: NodeTopology, names: Sequence[str]) -> tuple[str, ...]:
    nics = named_nics(topology.nics, names, "", "nic_queues.nics")
    if hidden := [nic.pci_address for nic in nics if nic.interface is None]:
        raise PlanError(
            f"{', '.join(hidden)} has no interface on the host, so its queues are not the host's",
            where="nic_queues.nics",
            remedy="leave it out",
        )
    return tuple(dict.fromkeys(nic.interface for nic in nics if nic.interface))


AnyNic = TypeVar("AnyNic", bound=Nic | RdmaDevice)


def named_nics(nics: Sequence[AnyNic], names: Sequence[str], kind: str, where: str) -> list[AnyNic]:
    """Return the NICs with these names; raises PlanError for one that no NIC of this `kind` has."""
    for name in names:
        if not any(name in _names(nic) for nic in nics):
            available = ", ".join(" = ".join(_names(nic)) for nic in nics) or "none"
            raise PlanError(
                f"the machine has no NIC {name}{kind}", where=where, remedy=f"those that it has: {available}"
            )
    return [nic for nic in nics if {*_names(nic)} & {*names}]


def _names(nic: Nic | RdmaDevice) -> tuple[str, ...]:
    device = nic.name if isinstance(nic, RdmaDevice) else nic.rdma_device
    return tuple(name for name in (device, nic.interface, nic.pci_address) if name)


def _unasked(topology: NodeTopology, reasons: Reasons) -> tuple[str, ...]:
    """Return the interfaces without the default route; none where the NIC of that route is unknown."""
    interfaces = {nic.interface for nic in topology.nics}
    routes = {network.interface for network in topology.networks if network.network == DEFAULT_ROUTE}
    if not routes or routes - interfaces:
        over = f"is over {', '.join(sorted(routes - interfaces))}" if routes else "is not known"
        reasons.notice(
            "nic-queues-default-route",
            f"the default route {over}, so it is not known which NICs carry it: their queues are left alone; "
            "name the others in nic_queues.nics",
        )
        return ()
    functions = {device.pci_address for device in topology.rdma_devices if device.physical_function}
    chosen = tuple(
        nic.interface
        for nic in topology.nics
        if nic.interface
        and nic.interface not in routes
        and nic.link_layer == "Ethernet"
        and nic.pci_address not in functions
    )
    if not chosen:
        reasons.notice(
            "no-nic-for-queues", "no NIC has Ethernet beside that of the default route: no queues are changed"
        )
    return tuple(dict.fromkeys(chosen))
