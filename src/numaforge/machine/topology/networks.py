"""IPv4 networks of interfaces, from the kernel's routing table."""

import re
from ipaddress import IPv4Network

from numaforge.machine.topology.model import Network

DEFAULT_ROUTE = "0.0.0.0/0"

# include/uapi/linux/route.h
_UP, _GATEWAY, _REJECT = 0x1, 0x2, 0x200
_ROUTE = re.compile(
    r"(?P<interface>\S+)\s+(?P<destination>[0-9A-F]{8})\s+[0-9A-F]{8}\s+(?P<flags>[0-9A-F]{4})"
    r"\s+[0-9]+\s+[0-9]+\s+(?P<metric>[0-9]{1,10})\s+(?P<mask>[0-9A-F]{8})\b"
)


def read_networks(routes: str) -> tuple[Network, ...]:
    """Return the networks in the text of /proc/net/route: default routes first, the preferred one leading.

    Routes through a gateway and to single hosts are left out: an overlay has one for every node or pod.
    """
    networks: list[tuple[bool, int, str, str]] = []
    for route in _ROUTE.finditer(routes):
        flags, metric = int(route["flags"], 16), int(route["metric"])
        length = int(route["mask"], 16).bit_count()
        network = IPv4Network((bytes.fromhex(route["destination"])[::-1], length), strict=False)
        default = network.prefixlen == 0
        if not flags & _UP or flags & _REJECT or (flags & _GATEWAY and not default):
            continue
        if default or network.prefixlen < network.max_prefixlen:
            networks.append((not default, metric if default else 0, route["interface"], str(network)))
    return tuple(dict.fromkeys(Network(interface, network) for *_, interface, network in sorted(networks)))
