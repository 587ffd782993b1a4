"""Which interface is in which IPv4 network, from /proc/net/route."""

import pytest

from numaforge.machine.topology.networks import read_networks

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def route(interface: str, destination: str, mask: str, flags: str = "0001", metric: int = 0) -> str:
    return f"{interface}\t{destination}\t00000000\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"


@pytest.mark.parametrize(
    ("routes", "networks"),
    [
        pytest.param("", [], id="nothing-read"),
        pytest.param(HEAD, [], id="no-route"),
        pytest.param(
            route("bond0", "00000A0A", "0000FFFF") + route("bond0", "00000000", "00000000", "0003"),
            ["bond0 0.0.0.0/0", "bond0 10.10.0.0/16"],
            id="default-route-first",
        ),
        pytest.param(
            route("eth1", "00000000", "00000000", "0003", 200)
            + route("eth2", "00000000", "00000000", "0003", 100),
            ["eth2 0.0.0.0/0", "eth1 0.0.0.0/0"],
            id="preferred-default-route-leads",
        ),
        pytest.param(route("eth0", "0001A8C0", "00FFFFFF", "0003"), [], id="behind-a-gateway"),
        pytest.param(route("cali1", "0501A8C0", "FFFFFFFF", "0005"), [], id="single-host"),
        pytest.param(route("eth0", "0001A8C0", "00FFFFFF", "0201"), [], id="rejected"),
        pytest.param("eth0 what is this\n", [], id="another-form"),
    ],
)
def test_networks_of_interfaces_are_read(routes: str, networks: list[str]) -> None:
    assert [f"{one.interface} {one.network}" for one in read_networks(HEAD + routes)] == networks
