"""Labels of the nodes themselves: what selectors, affinities and people read."""

import re
from collections.abc import Iterator

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written, node_patch

WHY = "labels of the Nodes that selectors, affinities and other systems read"
PREFIX = "numaforge.io"
FEATURE_FILE = "numaforge"
_WORD = re.compile(r"[^A-Za-z0-9_.-]+")


def labels_of(node: ServedNode) -> dict[str, str]:
    """Return the labels that describe a node's plan."""
    devices = sorted({sum(zone.devices.values()) for zone in node.zones if zone.cpus}) or [0]
    spread = dict.fromkeys((devices[0], devices[-1]))
    described = {
        f"{PREFIX}/profile": _WORD.sub("-", node.plan.profile).strip("-_.")[:63],
        f"{PREFIX}/plan": node.plan_id[:16],
        f"{PREFIX}/numa-policy": node.policy,
        f"{PREFIX}/numa-nodes": str(sum(bool(zone.cpus) for zone in node.zones)),
        f"{PREFIX}/devices-per-numa-node": "-".join(map(str, spread)),
        f"{PREFIX}/cpu-manager": node.cpu_manager,
    }
    return {**described, **node.plan.labels}


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the Nodes with their labels, and the same for node-feature-discovery."""
    patches = tuple(node_patch(node, labels_of(node)) for node in fleet.nodes)
    yield Written("nodes.yaml", "apply it with --server-side: other labels stay", patches)
    for node in fleet.nodes:
        lines = "".join(f"{key}={value}\n" for key, value in labels_of(node).items())
        yield Written(
            f"features.d/{node.name}",
            "the same where a node has no access to the API: "
            f"/etc/kubernetes/node-feature-discovery/features.d/{FEATURE_FILE} on it",
            text=lines,
        )
