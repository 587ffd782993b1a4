"""Kernel settings, as they are now."""

from __future__ import annotations

import re

import pytest

from numaforge.findings.gpudirect.access_control import wrong_bits
from numaforge.planning.sysctls import reaches
from numaforge.verification import expectations
from numaforge.verification.live import VerifiedNode


@pytest.mark.expects(table=expectations.governors)
def test_governor(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, governor = expected
    assert node.value(path) == governor, path


@pytest.mark.expects(table=expectations.energy_preferences)
def test_energy_preference(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, preference = expected
    assert node.value(path) == preference, path


@pytest.mark.expects(table=expectations.idle_states)
def test_idle_state_is_off(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, disabled = expected
    assert node.value(path) == disabled, path


@pytest.mark.expects(table=expectations.kernel_values)
def test_kernel_value(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, chosen = expected
    offered = node.value(path) or ""
    held = re.findall(r"\[(.*)\]", offered) or [offered]  # of `always [madvise] never` the word in brackets
    assert held == [chosen], f"{path}: {offered}"


@pytest.mark.expects(table=expectations.sysctls)
def test_sysctl(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, value = expected
    assert (node.value(path) or "").split() == value.split(), name


@pytest.mark.expects(table=expectations.raised_sysctls)
def test_sysctl_is_at_least(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, least = expected
    assert reaches(node.value(path), least), name


@pytest.mark.expects(table=expectations.kernel_cmdline)
def test_kernel_parameter(node: VerifiedNode, name: str, expected: str) -> None:
    assert expected in (node.value("/proc/cmdline") or "").split()


@pytest.mark.expects(table=expectations.access_control)
def test_pcie_access_control(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    ids, mask = expected
    found, _, control = (node.live.bridges.get(name) or "").partition(" ")
    assert found == ids, name
    assert not wrong_bits(mask, int(control)), name


@pytest.mark.expects(table=expectations.swap)
def test_swap(node: VerifiedNode, name: str, expected: tuple[str, ...]) -> None:
    devices = node.live.swap_devices
    assert devices == expected


@pytest.mark.expects(table=expectations.hugepages)
def test_hugepages(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, pages = expected
    assert node.value(path) == pages, path
