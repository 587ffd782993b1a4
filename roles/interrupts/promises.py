"""Which CPUs answer the devices, and what keeps workloads' CPUs free of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from numaforge.lib import shell
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.roles.interrupts import paths as interrupts_paths
from numaforge.verification.promise import Promise, Table, require, require_equal, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numaforge.machine.topology.model import CpuSet
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode

_SHOWN = 4


def interrupts(plan: NodePlan) -> Table:
    """The CPUs that answer each device, by PCI address."""
    return dict(sorted(plan.interrupts.devices.items()))


def packet_steering(plan: NodePlan) -> Table:
    """The CPUs that take packets of each interface, by its name."""
    return dict(sorted(plan.interrupts.rps.items()))


def cpu_masks(plan: NodePlan) -> Table:
    """The kernel's masks: for new interrupts, and for its workqueues."""
    masks = {
        "default-affinity": (interrupts_paths.DEFAULT_AFFINITY, plan.interrupts.default_affinity),
        "workqueues": (interrupts_paths.WORKQUEUES, plan.interrupts.workqueues),
    }
    return {name: (path, cpus) for name, (path, cpus) in masks.items() if cpus}


def irqbalance(plan: NodePlan) -> Table:
    """irqbalance: it does not run, or leaves the CPUs of workloads alone."""
    wish = plan.interrupts
    return {wish.irqbalance: wish.banned} if wish.irqbalance else {}


def _cpus_of(mask: str) -> CpuSet:
    bits = int(mask.replace(",", "") or "0", 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def _asks(plan: NodePlan) -> Iterator[str]:
    """Yield the shell commands that query interrupts and irqbalance."""
    wish = plan.interrupts
    if wish.devices:
        yield shell.call("tell_interrupts", sorted(wish.devices))
    if wish.irqbalance:
        yield shell.call("tell_irqbalance")


def _units(plan: NodePlan) -> list[str]:
    return [interrupts_paths.IRQBALANCE] if irqbalance(plan) else []


def _queues(plan: NodePlan) -> list[str]:
    """Return the patterns of the files with the CPUs that take each interface's packets."""
    return [f"/sys/class/net/{name}/queues/rx-*/rps_cpus" for name in sorted(plan.interrupts.rps)]


def _interrupts_of_a_device(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    placed = [words.split() for address, words in node.live.lines("interrupt") if address == name]
    elsewhere = {
        number: cpus
        for number, cpus, kind in placed
        if kind == "free" and not parse_cpulist(cpus) <= expected
    }
    require(not elsewhere, f"interrupts on CPUs {_listing(elsewhere)}, planned {format_cpulist(expected)}")


def _packet_steering(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    queues = re.compile(rf"/sys/class/net/{re.escape(name)}/queues/rx-[0-9]+/rps_cpus")
    masks = {path: mask for path, mask in node.live.values.items() if queues.fullmatch(path)}
    wrong = {path: mask for path, mask in masks.items() if _cpus_of(mask) != expected}
    cpus_of_queues = {
        path.split("/")[-2]: format_cpulist(_cpus_of(mask)) or "none" for path, mask in wrong.items()
    }
    require(
        not wrong, f"packets on CPUs {_listing(cpus_of_queues)}, planned {format_cpulist(expected) or 'none'}"
    )


def _listing(cpus: Mapping[str, str]) -> str:
    """Return the CPUs of an interrupt or a queue each, a few of them: `2-3 (rx-0), ...`."""
    shown = [f"{cpulist} ({name})" for name, cpulist in sorted(cpus.items())]
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def _cpu_mask(node: VerifiedNode, name: str, expected: tuple[str, CpuSet]) -> None:
    path, cpus = expected
    mask = node.value(path)
    if mask is None:
        pytest.skip(f"this kernel has no {path}")
    require_equal(format_cpulist(_cpus_of(mask)), format_cpulist(cpus), path)


def _irqbalance(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    active = node.live.of("active").get(interrupts_paths.IRQBALANCE)
    if name == "off":
        require(active != "active", "irqbalance is active, planned stopped")
    elif active == "active":
        banned = node.live.of("irqbalance").get("IRQBALANCE_BANNED_CPULIST", "")
        require(
            banned == format_cpulist(expected),
            f"irqbalance keeps off CPUs {banned or 'none'}, planned {format_cpulist(expected)}",
        )


PROMISES = (
    Promise("interrupts_of_a_device", interrupts, _interrupts_of_a_device, asks=_asks),
    Promise("packet_steering", packet_steering, _packet_steering, values=_queues),
    Promise("cpu_mask", cpu_masks, _cpu_mask, values=values_of(cpu_masks)),
    Promise("irqbalance", irqbalance, _irqbalance, units=_units, properties=("MainPID",)),
)
