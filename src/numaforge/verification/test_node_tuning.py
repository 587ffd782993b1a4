"""Kernel settings, as they are now."""

from __future__ import annotations

import re

import pytest

from numaforge.planning.sysctls import reaches
from numaforge.verification import expectations
from numaforge.verification.live import Node


@pytest.mark.expects(table=expectations.governors)
def test_governor(node: Node, name: str, expected: tuple[str, str]) -> None:
    path, governor = expected
    assert node.value(path) == governor, path


@pytest.mark.expects(table=expectations.energy_preferences)
def test_energy_preference(node: Node, name: str, expected: tuple[str, str]) -> None:
    path, preference = expected
    assert node.value(path) == preference, path


@pytest.mark.expects(table=expectations.transparent_hugepages)
def test_transparent_hugepages(node: Node, name: str, expected: tuple[str, str]) -> None:
    path, chosen = expected
    offered = node.value(path) or ""
    assert re.findall(r"\[(.*)\]", offered) == [chosen], f"{path}: {offered}"


@pytest.mark.expects(table=expectations.sysctls)
def test_sysctl(node: Node, name: str, expected: tuple[str, str]) -> None:
    path, value = expected
    assert (node.value(path) or "").split() == value.split(), name


@pytest.mark.expects(table=expectations.raised_sysctls)
def test_sysctl_is_at_least(node: Node, name: str, expected: tuple[str, str]) -> None:
    path, least = expected
    assert reaches(node.value(path), least), name


@pytest.mark.expects(table=expectations.swap)
def test_swap(node: Node, name: str, expected: tuple[str, ...]) -> None:
    devices = node.live.swap_devices
    assert devices == expected


@pytest.mark.expects(table=expectations.hugepages)
def test_hugepages(node: Node, name: str, expected: tuple[str, str]) -> None:
    path, pages = expected
    assert node.value(path) == pages, path
