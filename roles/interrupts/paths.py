"""Where the kernel keeps the CPUs that answer devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist, format_cpumask

if TYPE_CHECKING:
    from numaforge.roles.interrupts.plan import InterruptsPlan

DEFAULT_AFFINITY = "/proc/irq/default_smp_affinity"
WORKQUEUES = "/sys/devices/virtual/workqueue/cpumask"
IRQBALANCE = "irqbalance.service"


def affinity_lines(plan: InterruptsPlan) -> tuple[str, ...]:
    """Return a plan as the lines that roles/interrupts/affinity.sh reads."""
    masks = {DEFAULT_AFFINITY: plan.default_affinity, WORKQUEUES: plan.workqueues}
    return (
        *(f"mask {path} {format_cpumask(cpus)}" for path, cpus in masks.items() if cpus),
        *(f"device {address} {format_cpulist(cpus)}" for address, cpus in sorted(plan.devices.items())),
        *(f"rps {name} {format_cpumask(cpus)}" for name, cpus in sorted(plan.rps.items())),
    )
