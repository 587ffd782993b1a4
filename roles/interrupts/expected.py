"""The CPUs that answer devices, take packets and run the kernel's work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist
from numaforge.roles.expectation import Comparison, Expected

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.interrupts.plan import InterruptsPlan

DEFAULT_AFFINITY = "/proc/irq/default_smp_affinity"
WORKQUEUES = "/sys/devices/virtual/workqueue/cpumask"
INTERRUPTS = "/sys/bus/pci/devices/{}/msi_irqs/*"
"""The interrupts of a device, by number: what is compared is the cpulist of each (/proc/irq)."""
PACKET_STEERING = "/sys/class/net/{}/queues/rx-*/rps_cpus"


def expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield the kernel's masks, the interrupts of each device, and the receive queues of each interface."""
    return expected_cpus(plan.interrupts)


def expected_cpus(plan: InterruptsPlan) -> Iterator[Expected]:
    """Yield the rows of `expected`; a kernel may lack any of their files."""
    masks = {
        "default_affinity": (DEFAULT_AFFINITY, plan.default_affinity),
        "workqueues": (WORKQUEUES, plan.workqueues),
    }
    for name, (path, cpus) in masks.items():
        if cpus:
            yield Expected(f"cpu_mask:{name}", path, format_cpulist(cpus), Comparison.MASK, optional=True)
    for address, cpus in sorted(plan.devices.items()):
        path = INTERRUPTS.format(address)
        yield Expected(f"interrupts:{address}", path, format_cpulist(cpus), Comparison.WITHIN, optional=True)
    for name, cpus in sorted(plan.rps.items()):
        path = PACKET_STEERING.format(name)
        yield Expected(f"packet_steering:{name}", path, format_cpulist(cpus), Comparison.MASK, optional=True)


def affinity_lines(plan: InterruptsPlan) -> tuple[str, ...]:
    """Return the rows as the lines that affinity.sh reads."""
    return tuple(f"{row.comparison} {row.what} {row.text} {row.path}" for row in expected_cpus(plan))
