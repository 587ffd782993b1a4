"""Whether a host is the machine of a Node: by the IDs of both, and by evidence from outside the host.

A host names its Node itself, and could name another Node and copy its IDs: that Node would be drained. So the
IDs of both sides must agree, and in addition one thing that does not come from the host: the address at which
it is reached, the inventory's names for it, or the Node that the inventory pins it to.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from numaforge.change.identity import Identity
from numaforge.rollout.cluster import ClusterNode

PIN = "numaforge_node"  # the host data that pins a host to a Node, by the Node's name or provider ID
_WRONG_CLUSTER = "check the kubeconfig, its context, and the inventory"
_CHECK_MACHINE = {
    "system UUID": _WRONG_CLUSTER,
    "machine ID": _WRONG_CLUSTER,
    "boot ID": f"wait until its kubelet has reported where it was rebooted just now, else {_WRONG_CLUSTER}",
}


@dataclass(frozen=True)
class Access:
    """How a host is reached, which the host cannot choose.

    `host` is its name in the inventory, `pin` the Node that the inventory pins it to, "" for none.
    `addresses` are the peer addresses of the connection, `names` the names or addresses that were dialled.
    `here`: it is the machine that numaforge runs on.
    """

    host: str
    pin: str = ""
    addresses: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    here: bool = False


def other_machine(node: ClusterNode, host: Identity, *, rebooted: bool = False) -> str | None:
    """Return why a host is not the machine of a node's kubelet, None where it is; names prove nothing.

    Only IDs that both sides know are compared. The boot ID must be known, unless the host may have `rebooted`
    without a report from its kubelet since.
    """
    identifiers = {
        "system UUID": (host.system_uuid, node.system_uuid),
        "machine ID": (host.machine_id, node.machine_id),
        "boot ID": (host.boot_id, node.boot_id),
    }
    if rebooted:
        del identifiers["boot ID"]
    for name, (of_host, of_node) in identifiers.items():
        if of_host and of_node:
            if of_host.lower() == of_node.lower():
                continue
        elif name != "boot ID":
            continue
        return (
            f"the host is not known to be the machine of this node: the {name} of the host is "
            f"{of_host or 'unknown'}, and of the node {of_node or 'unknown'}: {_CHECK_MACHINE[name]}"
        )
    return None


def other_address(
    node: ClusterNode, access: Access, nodes: Callable[[], Iterable[ClusterNode]]
) -> str | None:
    """Return why the way the host is reached does not lead to the node, None where it does.

    The address must be one of the node's. Behind a forwarded port, address translation or a management
    network it cannot be: then the host's name in the inventory, or a dialled name, must be the node's, and
    the address must not belong to another of `nodes`. A pin alone decides.
    """
    if access.here:
        return None
    if access.pin:
        if access.pin in (node.name, node.provider_id):
            return None
        return f"the inventory says that it is the node {access.pin} ({PIN}), and the host says {node.name}"
    if _addresses(access.addresses) & _addresses(node.addresses):
        return None
    if not {name.lower() for name in (access.host, *access.names)} & _names(node):
        return (
            f"only its own claim makes it the node {node.name}: it is reached at "
            f"{_listed(access.addresses or access.names)}, and the node has {_listed(node.addresses)}. "
            f"Where it is that node, write so in the inventory: {PIN}={node.name!r}"
        )
    reached = {address for address in _addresses(access.addresses) if not address.is_loopback}
    peers = (peer for peer in nodes() if peer.name != node.name) if reached else ()
    claimant = next((peer for peer in peers if reached & _addresses(peer.addresses)), None)
    if claimant is None:
        return None
    return (
        f"it says that it is the node {node.name}, and is reached at an address of {claimant.name}: "
        f"{_listed(access.addresses)}. Where it is {node.name}, write so in the inventory: "
        f"{PIN}={node.name!r}"
    )


def claimed_twice(claims: Mapping[str, str]) -> dict[str, str]:
    """Return why hosts that claim one node are not taken, by host; `claims` has the node of each."""
    hosts_of: dict[str, list[str]] = defaultdict(list)
    for host, node in claims.items():
        hosts_of[node].append(host)
    return {
        host: f"{_listed(sorted(hosts))} say that each of them is the node {node}: remove all but one from "
        "the inventory, or find out why the others say so"
        for node, hosts in hosts_of.items()
        if len(hosts) > 1
        for host in hosts
    }


def _addresses(texts: Iterable[str]) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    parsed = set()
    for text in texts:
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            continue  # a name
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        parsed.add(mapped or address)
    return parsed


def _names(node: ClusterNode) -> set[str]:
    return {node.name.lower(), *(text.lower() for text in node.addresses if not _addresses([text]))}


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "no address"
