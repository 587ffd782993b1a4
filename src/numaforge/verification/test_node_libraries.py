"""What libraries are told of the rails: each port is up; with --active, it carries traffic."""

from __future__ import annotations

import zlib

import pytest

from numaforge import shell
from numaforge.verification import expectations, thresholds
from numaforge.verification.live import VerifiedNode
from numaforge.verification.plugin import Active
from numaforge.verification.thresholds import LeastBandwidth

_SCRIPTS = shell.library("verification/active")
_FIRST_TCP_PORT, _TCP_PORTS = 18515, 512  # from ibv_rc_pingpong's own on


@pytest.mark.expects(table=expectations.rail_ports)
def test_port_is_active(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, state = expected
    assert (node.value(path) or "no such port").rpartition(" ")[2] == state, path


@pytest.mark.expects(table=expectations.rail_ports)
def test_port_reaches_itself(
    node: VerifiedNode, name: str, expected: tuple[str, str], active: Active
) -> None:
    active.need("loopback", node)
    assert "iters in" in node.prove(_script("loopback", name)), name


@pytest.mark.expects(table=expectations.rail_ports)
def test_port_bandwidth(node: VerifiedNode, name: str, expected: tuple[str, str], active: Active) -> None:
    active.need("bandwidth", node)
    said = node.prove(_script("write_bandwidth", name))
    _reaches(thresholds.write_bandwidth(said), thresholds.write_threshold(said), "Gb/s")


@pytest.mark.expects(table=expectations.rail_gpus)
def test_gpus_all_reduce(node: VerifiedNode, name: str, expected: tuple[str, ...], active: Active) -> None:
    active.need("bandwidth", node)
    said = node.prove(_SCRIPTS + shell.call("all_reduce", expected))
    _reaches(thresholds.all_reduce_bandwidth(said), thresholds.all_reduce_threshold(said), "GB/s")


def _script(function: str, port: str) -> str:
    """Return the script for a port; tests beside each other take different TCP ports."""
    tcp = _FIRST_TCP_PORT + zlib.crc32(port.encode()) % _TCP_PORTS
    return _SCRIPTS + shell.call(function, [*port.split(":"), str(tcp)])


def _reaches(measured: float | None, threshold: LeastBandwidth | None, unit: str) -> None:
    assert measured is not None, "the program's answer holds no bandwidth"
    if threshold is None:
        pytest.skip(f"{measured:g} {unit}; there is no threshold for this hardware")
    assert measured >= threshold.least, f"{measured:g} {unit}, below {threshold.least:g} ({threshold.source})"
