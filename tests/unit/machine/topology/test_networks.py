"""Which interface is in which IPv4 network, from /proc/net/route."""

from numaforge.machine.topology.nics import read_networks
from tests.fixtures.tables import cases

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def route(interface: str, destination: str, mask: str, flags: str = "0001", metric: int = 0) -> str:
    return f"{interface}\t{destination}\t00000000\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"


@cases(
    "routes, networks",
    {
        "nothing-read": ("", []),
        "no-route": (HEAD, []),
        "default-route-first": (
            route("bond0", "00000A0A", "0000FFFF") + route("bond0", "00000000", "00000000", "0003"),
            ["bond0 0.0.0.0/0", "bond0 10.10.0.0/16"],
        ),
        "preferred-default-route-leads": (
            route("eth1", "00000000", "00000000", "0003", 200)
            + route("eth2", "00000000", "00000000", "0003", 100),
            ["eth2 0.0.0.0/0", "eth1 0.0.0.0/0"],
        ),
        "behind-a-gateway": (route("eth0", "0001A8C0", "00FFFFFF", "0003"), []),
        "single-host": (route("cali1", "0501A8C0", "FFFFFFFF", "0005"), []),
        "rejected": (route("eth0", "0001A8C0", "00FFFFFF", "0201"), []),
        "another-form": ("eth0 what is this\n", []),
    },
)
def test_networks_of_interfaces_are_read(routes: str, networks: list[str]) -> None:
    assert [f"{one.interface} {one.network}" for one in read_networks(HEAD + routes)] == networks
