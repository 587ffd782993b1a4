"""Who runs on the CPUs of workloads: interrupts, received packets, and the system's own daemons."""

from __future__ import annotations

import re

import pytest

from numaforge.cpulist import format_cpulist, parse_cpulist
from numaforge.topology.model import CpuSet
from numaforge.verification import expectations
from numaforge.verification.live import VerifiedNode


@pytest.mark.expects(table=expectations.interrupts)
def test_interrupts_of_a_device(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    placed = [said.split() for address, said in node.live.interrupts if address == name]
    elsewhere = {
        number: cpus
        for number, cpus, kind in placed
        if kind == "free" and not parse_cpulist(cpus) <= expected
    }
    assert elsewhere == {}, f"interrupts of {name} belong on the CPUs {format_cpulist(expected)}"


@pytest.mark.expects(table=expectations.packet_steering)
def test_packet_steering(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    queues = re.compile(rf"/sys/class/net/{re.escape(name)}/queues/rx-[0-9]+/rps_cpus")
    masks = {path: mask for path, mask in node.live.values.items() if queues.fullmatch(path)}
    wrong = {path: mask for path, mask in masks.items() if _cpus_of(mask) != expected}
    assert wrong == {}, f"packets of {name} belong on the CPUs {format_cpulist(expected) or '(none)'}"


@pytest.mark.expects(table=expectations.cpu_masks)
def test_cpu_mask(node: VerifiedNode, name: str, expected: tuple[str, CpuSet]) -> None:
    path, cpus = expected
    mask = node.value(path)
    if mask is None:
        pytest.skip(f"this kernel has no {path}")
    assert _cpus_of(mask) == cpus, path


@pytest.mark.expects(table=expectations.irqbalance)
def test_irqbalance(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    active = node.live.active.get("irqbalance.service")
    if name == "off":
        assert active != "active"
    elif active == "active":
        banned = node.live.irqbalance.get("IRQBALANCE_BANNED_CPULIST", "")
        assert banned == format_cpulist(expected)


@pytest.mark.expects(table=expectations.slices)
def test_daemons(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    effective = node.value(f"/sys/fs/cgroup/{name}/cpuset.cpus.effective")
    processes = [said.split() for slice_, said in node.live.processes if slice_ == name]
    if effective is None and not processes:
        pytest.skip(f"nothing runs in {name}")
    assert effective == format_cpulist(expected)
    elsewhere = {pid: cpus for pid, cpus in processes if not parse_cpulist(cpus) <= expected}
    assert elsewhere == {}, f"processes of {name} belong on the CPUs {format_cpulist(expected)}"


def _cpus_of(mask: str) -> CpuSet:
    bits = int(mask.replace(",", "") or "0", 16)
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)
