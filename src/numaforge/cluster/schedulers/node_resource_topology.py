"""NodeResourceTopology v1alpha2: what NodeResourceTopologyMatch of scheduler-plugins and KAI read."""

from collections.abc import Iterator
from typing import Any

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written, Zone
from numaforge.kubelet_minors.options import MAX_ALLOWABLE_NUMA_NODES
from numaforge.kubelet_minors.values.pages import pages_of
from numaforge.lib.kubernetes_objects import Manifest, manifest

WHY = "for scheduler-plugins and KAI where no agent writes them: its numbers are those of an empty node"
_POLICIES = {
    ("single-numa-node", "pod"): "SingleNUMANodePodLevel",
    ("single-numa-node", "container"): "SingleNUMANodeContainerLevel",
    ("restricted", "pod"): "RestrictedPodLevel",
    ("restricted", "container"): "RestrictedContainerLevel",
    ("best-effort", "pod"): "BestEffortPodLevel",
    ("best-effort", "container"): "BestEffortContainerLevel",
}
"""The deprecated names, by the topology manager's policy and scope."""


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the object of each node whose NUMA nodes it can express."""
    topologies = tuple(_topology_of(node) for node in fleet.sayable())
    if topologies:
        yield Written(
            "nodes.yaml", "NFD's topology-updater and koordlet write the same: run neither", topologies
        )


def _topology_of(node: ServedNode) -> Manifest:
    """Return the object of a node: what each zone offers to pods while none runs."""
    limit = (node.settings.get("topologyManagerPolicyOptions") or {}).get(MAX_ALLOWABLE_NUMA_NODES)
    attributes = {
        "topologyManagerPolicy": node.policy,
        "topologyManagerScope": node.scope,
        **({"topologyManagerMaxNUMANodes": str(limit)} if limit else {}),
    }
    return manifest(
        "topology.node.k8s.io/v1alpha2",
        "NodeResourceTopology",
        node.name,
        topologyPolicies=[_POLICIES.get((node.policy, node.scope), "None")],
        attributes=[{"name": name, "value": value} for name, value in attributes.items()],
        zones=[_zone(zone) for zone in node.zones],
    )


def _zone(zone: Zone) -> dict[str, Any]:
    free = len(zone.cpus - zone.reserved)
    resources = [
        _resource("cpu", len(zone.cpus), free),
        # listed even where the kubelet aligns no memory: the plugin refuses pods any resource no zone lists
        _resource("memory", zone.memory_bytes, zone.pod_memory_bytes),
        *(_resource(pages_of(size), amount, amount) for size, amount in zone.pages_bytes.items()),
        *(_resource(resource, count, count) for resource, count in zone.devices.items()),
    ]
    costs = [{"name": f"node-{peer}", "value": cost} for peer, cost in sorted(zone.distances.items())]
    return {"name": f"node-{zone.id}", "type": "Node", "costs": costs, "resources": resources}


def _resource(name: str, capacity: int, allocatable: int) -> dict[str, str]:
    """Return a resource, in cores, bytes or devices, all of it available."""
    free = str(allocatable)
    return {"name": name, "capacity": str(capacity), "allocatable": free, "available": free}
