"""The control plane: a separate pool, taken one node at a time, while the rest of it is healthy.

Its nodes are known by their labels: `node-role.kubernetes.io/control-plane`, or `master`, means an API
server, and `etcd` a member of etcd (k3s, RKE2). No kubelet can give itself these labels. The nodes of etcd's
members are known from the static pods (kubeadm, RKE2, OpenShift), from the condition EtcdIsVoter (k3s, RKE2),
else from the etcd endpoints in the API servers' arguments.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from numaforge.rollout.cluster import Cluster, ClusterNode, ClusterPod, ControlPlaneServer
from numaforge.rollout.other_tools import foreign

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
ETCD = "node-role.kubernetes.io/etcd"
ROLES = (*CONTROL_PLANE, ETCD)
PERMIT = "control_plane_outage"  # the setting that permits taking a node that the control plane needs
_API_POD = re.compile(r"kube-apiserver(-|$)")
_ETCD_POD = re.compile(r"etcd(-|$)")
_PART_POD = re.compile(r"(kube-apiserver|etcd)(-|$)")
_ETCD_SERVERS = "--etcd-servers="


def is_control_plane(node: ClusterNode) -> bool:
    """Whether a node belongs to the control plane, by its labels."""
    return any(role in node.labels for role in ROLES)


def control_plane_nodes(cluster: Cluster) -> dict[str, ClusterNode]:
    nodes = {node.name: node for role in ROLES for node in cluster.nodes(role)}
    return dict(sorted(nodes.items()))


def beside(node: ClusterNode, nodes: Mapping[str, ClusterNode], in_work: Collection[str]) -> str | None:
    """Return why a control-plane node waits for another of `nodes`; those `in_work` are in progress."""
    if node.name not in nodes:
        return "the control plane is not known yet"
    out = (
        (peer.name, why)
        for peer in nodes.values()
        if peer.name != node.name and (why := _out_of_service(peer, peer.name in in_work))
    )
    first = next(out, None)
    return f"one node of the control plane at a time, and {first[0]} {first[1]}" if first else None


def _out_of_service(node: ClusterNode, in_work: bool) -> str | None:
    if in_work:
        return "is in a roll-out"
    if not node.ready:
        return f"is not Ready: {node.ready_message or 'no reason given'}"
    if node.unschedulable:
        return "is cordoned"
    tool = foreign(node)
    return f"is in the maintenance of another tool: {tool}" if tool else None


def not_healthy(cluster: Cluster, *, but: str = "") -> str | None:
    """Return what of the control plane is not known to be healthy, but for troubles of the node `but`."""
    troubles = ControlPlane.look(cluster).troubles(cluster.api_servers())
    lines = [trouble.what for trouble in troubles if trouble.node != but]
    return f"the control plane is not known to be healthy: {'; '.join(lines)}" if lines else None


def refused_outage(control_plane: "ControlPlane", name: str) -> str | None:
    """Return why a node that the control plane needs is not taken, and what permits it; None: not needed."""
    outage = control_plane.outage(name)
    return f"{outage} (permit: {PERMIT})" if outage else None


def unlabelled(node: ClusterNode, pods: Iterable[ClusterPod]) -> str | None:
    """Return why a node that runs a part of the control plane does not count as one of its nodes, if so."""
    if is_control_plane(node):
        return None
    part = next((pod for pod in pods if _is_static(pod, _PART_POD)), None)
    if part is None:
        return None
    return (
        f"it runs {part}, and has no label of the control plane: "
        f"`kubectl label node {node.name} {ETCD if _is_static(part, _ETCD_POD) else CONTROL_PLANE[0]}=true`"
    )


@dataclass(frozen=True)
class Trouble:
    """A part of the control plane that is not known to be healthy, and its node ("" where unknown)."""

    node: str
    what: str


@dataclass(frozen=True)
class ControlPlane:
    """The nodes of the control plane by name, and the static pods of each that are parts of it."""

    nodes: Mapping[str, ClusterNode]
    pods: Mapping[str, tuple[ClusterPod, ...]]

    @classmethod
    def look(cls, cluster: Cluster) -> "ControlPlane":
        nodes = control_plane_nodes(cluster)
        pods = {name: cluster.pods(name) for name in nodes}
        parts = {name: tuple(pod for pod in pods[name] if _is_static(pod, _PART_POD)) for name in nodes}
        return cls(nodes, parts)

    def outage(self, name: str) -> str | None:
        """Return what is unavailable while a node is out of service, None where the others suffice."""
        if self.api_nodes == {name}:
            return (
                f"it runs the cluster's only API server: the API is away while {name} restarts, and nothing "
                "can be scheduled, healed or rolled back through it meanwhile"
            )
        if self.hidden_etcd and name in self.hidden_etcd:
            return (
                "a member of etcd runs on it beside Kubernetes, as on "
                f"{', '.join(sorted(self.hidden_etcd - {name})) or 'no other node'}, "
                "and the cluster does not show whether those are healthy"
            )
        members = len(self.etcd_nodes)
        if name not in self.etcd_nodes or members - 1 >= (quorum := members // 2 + 1):
            return None
        return (
            f"etcd has {members} member{'s' if members > 1 else ''}, as far as the cluster shows, and needs "
            f"{quorum} for a quorum: the API is away while {name} restarts"
        )

    def troubles(self, servers: Iterable[ControlPlaneServer]) -> tuple[Trouble, ...]:
        """Return what is not known to be healthy; `servers` are the API servers with their answers."""
        listed = tuple(servers)
        # At any addresses: all are ready, and at least as many as nodes with one.
        all_answer = len(listed) >= len(self.api_nodes) and all(server.ready for server in listed)
        unhealthy = [] if all_answer else [*self._api_troubles(listed)]
        for name, node in self.nodes.items():
            unhealthy += [Trouble(name, f"{pod} is not Ready") for pod in self.pods[name] if not pod.ready]
            if node.etcd_voter is False:
                unhealthy.append(Trouble(name, f"the etcd of {name} is not a voting member"))
            if not node.ready:
                unhealthy.append(
                    Trouble(name, f"{name} is not Ready: {node.ready_message or 'no reason given'}")
                )
        return tuple(unhealthy)

    @cached_property
    def api_nodes(self) -> frozenset[str]:
        return frozenset(
            name
            for name, node in self.nodes.items()
            if any(role in node.labels for role in CONTROL_PLANE) or self._runs(name, _API_POD)
        )

    @cached_property
    def etcd_nodes(self) -> frozenset[str]:
        """The nodes with a member of etcd; none where etcd runs entirely elsewhere."""
        shown = frozenset(
            name
            for name, node in self.nodes.items()
            if ETCD in node.labels or node.etcd_voter is not None or self._runs(name, _ETCD_POD)
        )
        if shown or self._etcd_servers:
            return shown or self._etcd_beside
        return self.api_nodes

    @cached_property
    def hidden_etcd(self) -> frozenset[str]:
        """The nodes with a member of etcd whose health no pod and no condition shows."""
        shown = {
            name
            for name, node in self.nodes.items()
            if node.etcd_voter is not None or self._runs(name, _ETCD_POD)
        }
        return frozenset() if shown else self._etcd_beside

    @cached_property
    def _etcd_beside(self) -> frozenset[str]:
        """The nodes at the etcd endpoints of the API servers, other than an API server's own node."""
        return frozenset(
            name
            for name, node in self.nodes.items()
            if any(address.lower() in map(str.lower, node.addresses) for address in self._etcd_servers)
        )

    @cached_property
    def _etcd_servers(self) -> frozenset[str]:
        """The hosts in the API servers' --etcd-servers, without loopback."""
        return frozenset(
            host
            for pods in self.pods.values()
            for pod in pods
            for word in pod.arguments
            if word.startswith(_ETCD_SERVERS)
            for url in word.removeprefix(_ETCD_SERVERS).split(",")
            if not _is_loopback(host := _host(url))
        )

    def _api_troubles(self, servers: tuple[ControlPlaneServer, ...]) -> Iterator[Trouble]:
        for name in sorted(self.api_nodes):
            if trouble := self._api_trouble(name, servers):
                yield Trouble(name, trouble)
        for server in servers:
            known = any(server.address in node.addresses for node in self.nodes.values())
            if not server.ready and not known:
                yield Trouble("", f"the API server {server}, on no known node, {_silence(server)}")

    def _api_trouble(self, name: str, servers: tuple[ControlPlaneServer, ...]) -> str | None:
        """Return why a node's API server is not known to be ready; out of reach, its pod's probes count."""
        addresses = self.nodes[name].addresses
        own_server = next((server for server in servers if server.address in addresses), None)
        known = own_server.ready if own_server else None
        if known or (
            known is None and any(pod.ready for pod in self.pods[name] if _is_static(pod, _API_POD))
        ):
            return None
        if own_server is None:
            return f"the API server of {name} is not among those of the Service kubernetes"
        return f"the API server of {name} ({own_server}) {_silence(own_server)}"

    def _runs(self, name: str, part: re.Pattern[str]) -> bool:
        return any(_is_static(pod, part) for pod in self.pods[name])


def _is_static(pod: ClusterPod, part: re.Pattern[str]) -> bool:
    return pod.mirror and bool(part.match(pod.name))


def _silence(server: ControlPlaneServer) -> str:
    state = "is not ready" if server.ready is False else "cannot be asked whether it is ready"
    return f"{state}: {server.message}"


def _host(url: str) -> str:
    return re.sub(r"^\w+://", "", url).rpartition(":")[0].strip("[]")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
