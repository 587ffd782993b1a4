"""Interrupts and received packets: on the reserved CPUs, where possible those of the device's NUMA node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from numaforge.lib.codec import ByName, CpuSet
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.ordering import grouped
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import Gpu, Nic, NodeTopology, Nvme

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


@dataclass(frozen=True)
class InterruptsPlan:
    """Which CPUs handle interrupts; empty sets, and devices that are not named, stay as they are.

    `devices` are by PCI address: interrupt numbers change with every boot and driver reload. `rps` is by
    interface: there an empty set turns receive packet steering off. `banned` are the CPUs that irqbalance
    must not use, offline ones included.
    """

    devices: ByName[CpuSet] = field(default_factory=dict)
    rps: ByName[CpuSet] = field(default_factory=dict)
    default_affinity: CpuSet = frozenset()
    workqueues: CpuSet = frozenset()
    irqbalance: str | None = None  # "reserved", "off"
    banned: CpuSet = frozenset()


_AFFINITY = "docs.kernel.org/core-api/irq/irq-affinity.html"
_REASONS = {
    "irqbalance": "irqbalance(1)",
    "devices": _AFFINITY,
    "default_affinity": _AFFINITY,
    "rps": "docs.kernel.org/networking/scaling.html",
    "workqueues": "docs.kernel.org/core-api/workqueue.html",
}


def plan_interrupts(
    machine: NodeTopology, profile: NodeProfile, reserved: CpuSet
) -> Reasoned[InterruptsPlan]:
    """Return which CPUs answer each device.

    Raises PlanError where the profile asks for reserved CPUs and there are none.
    """
    wish = profile.interrupts
    on_reserved = [name for name in _REASONS if getattr(wish, name) == "reserved"]
    if on_reserved and not reserved:
        raise refuse_without_reserved(f"interrupts.{on_reserved[0]}")
    near = partial(_near, machine, reserved)
    devices = dict(_devices(machine, wish.device_classes)) if wish.devices == "reserved" else {}
    nics = (
        {nic.interface: nic for nic in machine.nics if nic.interface}
        if wish.rps in ("reserved", "off")
        else {}
    )
    plan = InterruptsPlan(
        devices={address: near(node) for address, node in sorted(devices.items())},
        rps={
            name: near(nic.numa_node) if wish.rps == "reserved" else frozenset()
            for name, nic in sorted(nics.items())
        },
        default_affinity=reserved if wish.default_affinity == "reserved" else frozenset(),
        workqueues=reserved if wish.workqueues == "reserved" else frozenset(),
        irqbalance=None if wish.irqbalance == "keep" else wish.irqbalance,
        banned=(machine.online | machine.offline) - reserved
        if wish.irqbalance == "reserved"
        else frozenset(),
    )
    notices = tuple(_notices(machine, profile, plan, reserved, devices))
    return Reasoned(plan, tuple(_decisions(profile, plan)), notices)


def refuse_without_reserved(field: str) -> PlanError:
    """Return the error for a field that needs reserved CPUs, where there are none."""
    return PlanError(
        "asks for the reserved CPUs, and this machine reserves none",
        where=field,
        remedy="reserve some with cpus.reserved, or set keep",
    )


def _near(topology: NodeTopology, reserved: CpuSet, node: int | None) -> CpuSet:
    """Return the reserved CPUs of the NUMA node, else of the nearest one that has some.

    Returns all of them for a device whose NUMA node the firmware does not name.
    """
    home = next((numa_node for numa_node in topology.numa_nodes if numa_node.id == node), None)
    if home is None:
        return reserved
    far = 255  # the firmware's distance for an unreachable node
    able = [candidate for candidate in topology.numa_nodes if candidate.cpus & reserved]
    order = {one.id: (one.id != home.id, home.distances.get(one.id, far), one.id) for one in able}
    return reserved & min(able, key=lambda candidate: order[candidate.id], default=home).cpus


def _devices(topology: NodeTopology, classes: tuple[str, ...]) -> Iterator[tuple[str, int | None]]:
    """Yield the devices of the classes with their NUMA nodes, without those passed to virtual machines."""
    by_class: dict[str, tuple[Nic | Nvme | Gpu, ...]] = {
        "nics": topology.nics,
        "nvmes": topology.nvmes,
        "gpus": topology.gpus,
    }
    for name in classes:
        for device in by_class[name]:
            if device.driver != "vfio-pci":
                yield device.pci_address, device.numa_node


def _decisions(profile: NodeProfile, plan: InterruptsPlan) -> Iterator[Decision]:
    values = {
        "irqbalance": {
            "reserved": f"not on CPUs {format_cpulist(plan.banned)}",
            "off": "stopped, and not started at boot",
        }.get(plan.irqbalance or "", ""),
        "devices": _names_by_cpus(plan.devices),
        "default_affinity": format_cpulist(plan.default_affinity),
        "rps": _names_by_cpus(plan.rps),
        "workqueues": format_cpulist(plan.workqueues),
    }
    for name, value in values.items():
        if value:
            reason = profile.choice(f"interrupts.{name}")
            yield Decision(
                f"interrupts.{name}",
                value,
                f"{reason}, on no CPU that a pod has to itself ({_REASONS[name]})",
            )


def _names_by_cpus(by_name: Mapping[str, CpuSet]) -> str:
    """Return `0,8: eth0, eth1; off: eth2`."""
    groups = grouped((format_cpulist(cpus) or "off", name) for name, cpus in by_name.items())
    return "; ".join(f"{cpus}: {', '.join(names)}" for cpus, names in groups.items())


def _notices(
    topology: NodeTopology,
    profile: NodeProfile,
    plan: InterruptsPlan,
    reserved: CpuSet,
    devices: dict[str, int | None],
) -> Iterator[Notice]:
    lacking = {numa_node.id for numa_node in topology.numa_nodes if not numa_node.cpus & reserved}
    elsewhere = sorted(address for address, node in devices.items() if node in lacking)
    if elsewhere:
        yield Notice(
            "interrupts-on-another-numa-node",
            f"{', '.join(elsewhere)}: no CPU is reserved on the device's NUMA node, so the nearest one that "
            "has some answers it",
        )
    unplaced = sorted(address for address, node in devices.items() if node is None)
    if unplaced and len(topology.numa_nodes) > 1:
        yield Notice(
            "interrupts-of-unplaced-devices",
            f"{', '.join(unplaced)}: the firmware does not say on which NUMA node, so all reserved "
            "CPUs answer",
        )
    if any(nvme.pci_address in plan.devices for nvme in topology.nvmes):
        yield Notice(
            "managed-interrupts",
            "the kernel itself spreads the queue interrupts of NVMe drives over all CPUs, and nothing moves "
            "them; they come only to a CPU that uses the drive. isolcpus=managed_irq,CPUS on the kernel's "
            "command line keeps them away",
        )
    wish = profile.interrupts
    if wish.devices == "reserved" and not plan.devices:
        yield Notice(
            "no-such-devices",
            f"this machine has no {' and no '.join(wish.device_classes)}: no interrupt is moved",
        )
