"""Every system that files are written for, and the folder of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from numaforge.kubernetes_objects import as_yaml
from numaforge.roles.kubelet.delivery import merge
from numaforge.schedulers import (
    amd_gpu_operator,
    coscheduling,
    crane,
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
from numaforge.schedulers.fleet import ServedFleet, ServedNode, Written, commented

SYSTEMS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        labels,
        nfd,
        node_resource_topology,
        volcano,
        koordinator,
        crane,
        coscheduling,
        gangs,
        kueue,
        openshift,
        dra,
        gpu_operator,
        network_operator,
        amd_gpu_operator,
    )
}
"""A module has NAME, WHY and `documents`. An operator's module also has OWN, the API version and kind of its
object, and UNSET, the defaults of its unset fields."""


@dataclass(frozen=True)
class Folder:
    """What a system gets: its files, and the nodes that it cannot express, with the reason.

    Without files, `nothing` is why there are none.
    """

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
        """Return what a cluster is held to: the documents, or what is made of them, without examples."""
        return tuple(
            document
            for file in self.files
            if not file.example
            for document in file.compared or file.documents
        )

    def held_where_served(self, unserved: Collection[tuple[str, str]]) -> tuple[Mapping[str, Any], ...]:
        """Return what a cluster is held to; nothing where it does not serve an operator's own kind."""
        own_kind = getattr(SYSTEMS[self.name], "OWN", None)
        if own_kind in unserved:
            return ()
        return tuple(
            document
            for document in self.compared()
            if (document["apiVersion"], document["kind"]) not in unserved
        )

    def completed(self, live: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return a live object with its operator's defaults for unset fields."""
        module = SYSTEMS[self.name]
        if live is None or (live.get("apiVersion"), live.get("kind")) != getattr(module, "OWN", None):
            return live
        return merge(module.UNSET, live)


def generate(
    nodes: Sequence[ServedNode], names: Sequence[str] = (), gang_version: str | None = None
) -> tuple[Folder, ...]:
    """Return what each system gets for some nodes, at least one.

    Without `names`, systems that get nothing are left out. `gang_version` is the version of Kubernetes' own
    PodGroup that the cluster serves, where it was asked.
    """
    folders = []
    for name in names or SYSTEMS:
        module, fleet = SYSTEMS[name], ServedFleet(tuple(nodes), gang_version=gang_version)
        files = tuple(module.documents(fleet))
        if not (names or files or fleet.left_out):
            continue
        folders.append(Folder(name, module.WHY, files, fleet.left_out, fleet.nothing))
    return tuple(folders)
