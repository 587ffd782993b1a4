"""irqbalance, which may move interrupts to other CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.lib import shell
from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.topology.model import CpuSet
from numaforge.roles.interrupts.part import IRQBALANCE
from numaforge.roles.promise import Promise, Table, require

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def irqbalance(plan: NodePlan) -> Table:
    """irqbalance: it does not run, or leaves the CPUs of workloads alone."""
    wish = plan.interrupts
    return {wish.irqbalance: wish.banned} if wish.irqbalance else {}


def _asks(plan: NodePlan) -> Iterator[str]:
    """Yield the shell commands that query irqbalance and the interrupts of the planned devices."""
    if plan.interrupts.devices:
        yield shell.call("tell_interrupts", sorted(plan.interrupts.devices))
    if plan.interrupts.irqbalance:
        yield shell.call("tell_irqbalance")


def _units(plan: NodePlan) -> list[str]:
    return [IRQBALANCE] if irqbalance(plan) else []


def _irqbalance(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    active = node.live.of("active").get(IRQBALANCE)
    if name == "off":
        require(active != "active", "irqbalance is active, planned stopped")
    elif active == "active":
        banned = node.live.of("irqbalance").get("IRQBALANCE_BANNED_CPULIST", "")
        require(
            banned == format_cpulist(expected),
            f"irqbalance keeps off CPUs {banned or 'none'}, planned {format_cpulist(expected)}",
        )


PROMISES = (
    Promise("irqbalance", irqbalance, _irqbalance, units=_units, properties=("MainPID",), asks=_asks),
)
