"""Koordinator: labels and annotations of Nodes, devices for koordlet, and the layers of the network."""

import json
from collections.abc import Iterator
from typing import Any

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written, node_patch, root_of
from numaforge.kubelet_minors.options import FULL_PCPUS_ONLY
from numaforge.lib.kubernetes_objects import CLIQUE, manifest

WHY = "what koord-scheduler and koordlet take from an admin; topologies and Devices koordlet writes itself"
PREFIX = "node.koordinator.sh"
POLICIES = {"single-numa-node": "SingleNUMANode", "restricted": "Restricted", "best-effort": "BestEffort"}
DEVICES_FOLDER = "/var/run/koordlet/xpu-device-infos"


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the Nodes, the devices of each, and the layers where all nodes are in an NVLink domain."""
    yield Written(
        "nodes.yaml",
        "apply it with --server-side. The kubelet has the CPUs (static): let koordlet set none",
        tuple(node_patch(node, *_labels_and_annotations(node)) for node in fleet.nodes),
    )
    for node in fleet.nodes:
        if devices := _devices(node):
            yield Written(
                f"xpu-device-infos/{node.name}.json",
                f"a file of {DEVICES_FOLDER} on the node: write it beside, then rename it in; needs "
                "koordlet's gate Accelerators",
                text=json.dumps(devices, indent=2) + "\n",
            )
        elif node.machine.gpus:
            fleet.left_out[node.name] = "its GPUs' UUIDs or numbers are not known: no driver has answered"
    if all(node.clique for node in fleet.nodes):
        layers = [
            {"topologyLayer": "AcceleratorLayer", "labelKey": [CLIQUE]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "AcceleratorLayer"},
        ]
        spec = {"networkTopologySpec": layers}
        api, kind = "scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology"
        topology = manifest(api, kind, "default", labels={}, spec=spec)  # no other name is read
        yield Written("network-topology.yaml", "gangs within one NVLink domain", (topology,))


def _labels_and_annotations(node: ServedNode) -> tuple[dict[str, str], dict[str, str]]:
    labels = {}
    if node.policy in POLICIES:
        labels[f"{PREFIX}/numa-topology-policy"] = POLICIES[node.policy]
    if (node.settings.get("cpuManagerPolicyOptions") or {}).get(FULL_PCPUS_ONLY) == "true":
        labels[f"{PREFIX}/cpu-bind-policy"] = "FullPCPUsOnly"
    # ReservedCPUsOnly: the kubelet has already subtracted them from Allocatable
    reservation = json.dumps({"reservedCPUs": node.reserved_cpus, "applyPolicy": "ReservedCPUsOnly"})
    return labels, {f"{PREFIX}/reservation": reservation} if node.reserved_cpus else {}


def _devices(node: ServedNode) -> list[dict[str, Any]]:
    """Return NVIDIA's whole GPUs as koordlet reads them; empty where UUID, minor or memory is missing."""
    gpus = [gpu for gpu in node.machine.gpus if gpu.vendor == "10de"]
    if not all(gpu.uuid and gpu.minor is not None and gpu.memory_bytes for gpu in gpus):
        return []
    return [
        {
            "vendor": "nvidia",
            "model": (gpu.name or "").replace(" ", "-"),
            "uuid": gpu.uuid,
            "minor": str(gpu.minor),
            "resources": {"gpu-core": "100", "gpu-memory": str(gpu.memory_bytes)},
            "topology": {
                **({"nodeID": str(gpu.numa_node)} if gpu.numa_node is not None else {}),
                **({"pcieID": root} if (root := root_of(node.machine, gpu.pci_address)) else {}),
                "busID": gpu.pci_address,
            },
            "status": {"healthy": gpu.unanswered is None},
        }
        for gpu in gpus
    ]
