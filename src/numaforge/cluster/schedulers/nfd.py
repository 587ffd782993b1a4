"""Node-feature-discovery: a rule per kind of node; its labels stay while the node is as planned."""

import json
from collections.abc import Iterator
from typing import Any

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written
from numaforge.cluster.schedulers.labels import PREFIX, labels_of
from numaforge.kubelet_minors.values.pages import pages_of
from numaforge.lib.kubernetes_objects import manifest
from numaforge.lib.ordering import first_of, grouped

WHY = "for node-feature-discovery, where it runs: labels of nodes that are found as their plans have them"
AS_PLANNED = f"{PREFIX}/found-as-planned"
_OF_EACH_NODE = f"{PREFIX}/plan"  # differs by node, and a rule is for several
_GPU_CLASSES = ("0300", "0302", "1200")  # VGA, 3D, processing accelerators


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the rules: one per group of nodes with equal labels and features."""
    kinds = grouped(
        (json.dumps([_labels(node), _features(node)], sort_keys=True), node) for node in fleet.nodes
    )
    rules = [_rule(nodes) for nodes in kinds.values()]
    document = manifest("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule", "numaforge", spec={"rules": rules})
    why = "a label goes when the node is found otherwise: fewer NUMA nodes, huge pages, no GPU"
    yield Written("rules.yaml", why, (document,))


def _rule(nodes: list[ServedNode]) -> dict[str, Any]:
    names = sorted(node.name for node in nodes)
    first = nodes[0]
    return {
        "name": f"numaforge {first_of(names, 1)}",
        "labels": {**_labels(first), AS_PLANNED: "true"},
        "matchFeatures": [_matching("system.name", nodename={"op": "In", "value": names}), *_features(first)],
    }


def _labels(node: ServedNode) -> dict[str, str]:
    return {key: value for key, value in labels_of(node).items() if key != _OF_EACH_NODE}


def _features(node: ServedNode) -> list[dict[str, Any]]:
    """Return the features that identify a node: its NUMA nodes, its total huge pages, a GPU of its vendor.

    NFD's memory.numa and memory.hugepages (v0.18 and later), pci.device.
    """
    count = str(len(node.machine.numa_nodes))
    features = [_matching("memory.numa", node_count={"op": "In", "value": [count]})]
    totals: dict[str, int] = {}
    for pool in (*node.plan.hugepages.pools, *node.plan.hugepages.kept):
        totals[pool.size] = totals.get(pool.size, 0) + pool.pages
    page_counts = {
        pages_of(size): {"op": "Ge", "value": [str(pages)]} for size, pages in sorted(totals.items()) if pages
    }
    if page_counts:
        features.append(_matching("memory.hugepages", **page_counts))
    for vendor in sorted({gpu.vendor for gpu in node.machine.gpus}):
        features.append(
            _matching(
                "pci.device",
                vendor={"op": "In", "value": [vendor]},
                **{"class": {"op": "In", "value": [*_GPU_CLASSES]}},
            )
        )
    return features


def _matching(feature: str, **expressions: dict[str, Any]) -> dict[str, Any]:
    return {"feature": feature, "matchExpressions": expressions}
