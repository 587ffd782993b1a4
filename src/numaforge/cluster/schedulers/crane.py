"""Crane: its own NodeResourceTopology, and the label for the manager of CPUs."""

from collections.abc import Iterator
from typing import Any

from numaforge.cluster.schedulers.fleet import MANAGED_BY, ServedFleet, ServedNode, Written, node_patch
from numaforge.cluster.schedulers.node_resource_topology import POLICIES

NAME = "crane"
WHY = "for crane-scheduler where no crane-agent runs; it leaves CPUs alone that the kubelet places"
AWARENESS = "topology.crane.io/topology-awareness"


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the Nodes with their label, and the object of each node that it can express."""
    nodes = tuple(
        node_patch(node, {AWARENESS: str(node.cpu_manager != "static").lower()}, {}) for node in fleet.nodes
    )
    yield Written("nodes.yaml", "false, where the kubelet places CPUs itself", nodes)
    topologies = tuple(topology_of(node) for node in fleet.sayable())
    if topologies:
        yield Written("topologies.yaml", "crane-agent writes the same objects: run one of both", topologies)


def topology_of(node: ServedNode) -> dict[str, Any]:
    """Return a node's object: zones without a dash, policies with a capital, as its schema has them."""
    reserved = node.plan.memory
    return {
        "apiVersion": "topology.crane.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node.name, "labels": dict(MANAGED_BY)},
        "craneManagerPolicy": {
            # cpusets have one owner: None where it is the kubelet
            "cpuManagerPolicy": "None" if node.cpu_manager == "static" else "Static",
            "topologyManagerPolicy": "SingleNUMANodePodLevel"
            if POLICIES.get((node.policy, node.scope)) == "SingleNUMANodePodLevel"
            else "None",
        },
        "reserved": {
            "cpu": str(len(node.plan.cpus.reserved)),
            "memory": str(reserved.kube_reserved_bytes + reserved.system_reserved_bytes),
        },
        "attributes": {"go.crane.io/reserved-system-cpus": node.reserved_cpus},
        "zones": [
            {
                "name": f"node{zone.id}",
                "type": "Node",
                "costs": zone.costs("node"),
                "resources": {
                    "capacity": {"cpu": str(len(zone.cpus)), "memory": str(zone.memory_bytes)},
                    "allocatable": {
                        "cpu": str(len(zone.cpus - zone.reserved)),
                        "memory": str(zone.pod_memory_bytes),
                    },
                    "reservedCPUNums": len(zone.reserved),
                },
            }
            for zone in node.zones
        ],
    }
