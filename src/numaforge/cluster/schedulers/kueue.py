"""Kueue: the levels of its topology-aware scheduling, and a flavor of these nodes."""

from collections.abc import Iterator

from numaforge.cluster.schedulers.fleet import ServedFleet, Written
from numaforge.cluster.schedulers.labels import PREFIX, labels_of
from numaforge.lib.kubernetes_objects import CLIQUE, manifest

WHY = "levels for topology-aware scheduling; a node that lacks the label of one level is invisible to Kueue"
_API = "kueue.x-k8s.io/v1beta2"
HOSTNAME = "kubernetes.io/hostname"


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the Topology, and a ResourceFlavor for each profile."""
    if all(node.clique for node in fleet.nodes):
        keys = [CLIQUE, HOSTNAME]
    else:
        keys = [HOSTNAME]
        fleet.left_out.update(
            {
                node.name: f"it is in no NVLink domain, so {CLIQUE} is no level"
                for node in fleet.nodes
                if not node.clique and any(other_node.clique for other_node in fleet.nodes)
            }
        )
    levels = {"levels": [{"nodeLabel": key} for key in keys]}
    topology = manifest(_API, "Topology", "numaforge", labels={}, spec=levels)
    profiles = dict.fromkeys(labels_of(node)[f"{PREFIX}/profile"] for node in fleet.nodes)
    flavors = tuple(
        manifest(
            _API,
            "ResourceFlavor",
            f"numaforge-{profile.lower().replace('_', '-')}",
            labels={},
            spec={"topologyName": "numaforge", "nodeLabels": {f"{PREFIX}/profile": profile}},
        )
        for profile in profiles
    )
    yield Written(
        "topology.yaml", "its labels are those of the folder labels: apply that first", (topology, *flavors)
    )
