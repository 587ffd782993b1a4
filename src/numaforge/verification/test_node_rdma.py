"""Kernel modules, and what RDMA needs of the host, as they are now."""

from __future__ import annotations

import pytest

from numaforge.roles.modules.part import switch
from numaforge.roles.rdma.planned import NicSetting
from numaforge.verification import expectations
from numaforge.verification.live import VerifiedNode


@pytest.mark.expects(table=expectations.modules)
def test_module(node: VerifiedNode, name: str, expected: bool) -> None:
    assert (name in node.live.modules) is expected, "is it built into the kernel?" if expected else name


@pytest.mark.expects(table=expectations.module_options)
def test_module_option(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, value = expected
    now = node.value(path)
    if now is None:
        pytest.skip(f"the module does not tell it: there is no {path}")
    assert switch(now.strip()) == switch(value), path


@pytest.mark.expects(table=expectations.rdma_netns)
def test_rdma_netns(node: VerifiedNode, name: str, expected: str) -> None:
    assert {"1": "shared", "0": "exclusive"}.get(switch(node.value(expectations.NETNS) or "")) == expected


@pytest.mark.expects(table=expectations.memlock)
def test_memlock(node: VerifiedNode, name: str, expected: str) -> None:
    assert node.live.memlock.get(name) == expected


@pytest.mark.expects(table=expectations.nics)
def test_nic_setting(node: VerifiedNode, name: str, expected: NicSetting) -> None:
    now = node.live.nics.get(name)
    if now == "-" and expected.name != "max_read_request":
        pytest.skip("the host has no tool that tells it: mlnx_qos, for pfc also dcb")
    assert now == expected.value


@pytest.mark.expects(table=expectations.rdma_character_devices)
def test_rdma_character_device(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    device, kind = expected
    assert name in node.live.rdma, (
        f"{device} has no {kind} below /dev/infiniband: which module is not loaded?"
    )
