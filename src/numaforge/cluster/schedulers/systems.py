"""Every system that files are written for, and the folder of each."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numaforge.cluster.schedulers import (
    amd_gpu_operator,
    coscheduling,
    dra,
    gangs,
    gpu_operator,
    koordinator,
    kueue,
    labels,
    network_operator,
    nfd,
    node_resource_topology,
    openshift,
    volcano,
)
from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written, commented
from numaforge.lib.kubernetes_objects import as_yaml
from numaforge.roles.kubelet.delivery import merge


@dataclass(frozen=True)
class System:
    """A system that files are written for; an operator has a kind of its own, with defaults."""

    why: str
    documents: Callable[[ServedFleet], Iterator[Written]]
    own_kind: tuple[str, str] | None = None
    unset: Mapping[str, Any] = field(default_factory=dict)


SYSTEMS = {
    "labels": System(labels.WHY, labels.documents),
    "nfd": System(nfd.WHY, nfd.documents),
    "noderesourcetopology": System(node_resource_topology.WHY, node_resource_topology.documents),
    "volcano": System(volcano.WHY, volcano.documents),
    "koordinator": System(koordinator.WHY, koordinator.documents),
    "coscheduling": System(coscheduling.WHY, coscheduling.documents),
    "gangs": System(gangs.WHY, gangs.documents),
    "kueue": System(kueue.WHY, kueue.documents),
    "openshift": System(openshift.WHY, openshift.documents),
    "dra": System(dra.WHY, dra.documents),
    "gpu-operator": System(gpu_operator.WHY, gpu_operator.documents, gpu_operator.OWN, gpu_operator.UNSET),
    "network-operator": System(network_operator.WHY, network_operator.documents),
    "amd-gpu-operator": System(
        amd_gpu_operator.WHY, amd_gpu_operator.documents, amd_gpu_operator.OWN, amd_gpu_operator.UNSET
    ),
}


@dataclass(frozen=True)
class Folder:
    """A system's files, and why nodes are left out; `nothing` is the reason for no files."""

    name: str
    why: str
    files: tuple[Written, ...]
    left_out: dict[str, str]
    nothing: str = ""

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield each file's path below the folder and its text; with objects, kustomization.yaml last."""
        for file in self.files:
            yield file.name, file.text or f"{commented(file.why)}{as_yaml(*file.documents)}"
        resources = [file.name for file in self.files if file.documents]
        if not resources:
            return
        apply = f"kubectl apply --server-side --field-manager=numaforge-{self.name} -k ."
        head = f"{commented(self.why)}# {apply}\n"
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": resources,
        }
        yield "kustomization.yaml", head + as_yaml(kustomization)

    def compared(self) -> tuple[Mapping[str, Any], ...]:
        """Return the objects to compare a cluster with, without examples."""
        return tuple(
            document
            for file in self.files
            if not file.example
            for document in file.compared or file.documents
        )

    def held_where_served(self, unserved: Collection[tuple[str, str]]) -> tuple[Mapping[str, Any], ...]:
        """Return the objects to compare; none where the cluster does not serve an operator's own kind."""
        if SYSTEMS[self.name].own_kind in unserved:
            return ()
        return tuple(
            document
            for document in self.compared()
            if (document["apiVersion"], document["kind"]) not in unserved
        )

    def completed(self, live: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return a live object with its operator's defaults for unset fields."""
        system = SYSTEMS[self.name]
        if live is None or (live.get("apiVersion"), live.get("kind")) != system.own_kind:
            return live
        return merge(system.unset, live)


def generate(
    nodes: Sequence[ServedNode], names: Sequence[str] = (), gang_version: str | None = None
) -> tuple[Folder, ...]:
    """Return each system's files for nodes, at least one; without `names`, only systems that have any."""
    folders = []
    for name in names or SYSTEMS:
        system, fleet = SYSTEMS[name], ServedFleet(tuple(nodes), gang_version=gang_version)
        files = tuple(system.documents(fleet))
        if not (names or files or fleet.left_out):
            continue
        folders.append(Folder(name, system.why, files, fleet.left_out, fleet.nothing))
    return tuple(folders)
