"""Every system that nodes are written for, and the folder of files of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import yaml

from numaforge.schedulers import (
    coscheduling,
    crane,
    dra,
    gangs,
    koordinator,
    kueue,
    labels,
    nfd,
    node_resource_topology,
    openshift,
    volcano,
)
from numaforge.schedulers.fleet import ServedFleet, ServedNode, Written

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
    )
}
_WIDTH = 120


@dataclass(frozen=True)
class Folder:
    """What a system gets: its files, and the nodes that it cannot say, with the reason."""

    name: str
    why: str
    files: tuple[Written, ...]
    left_out: dict[str, str]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield each file's path below the folder and its text, kustomization.yaml last."""
        for file in self.files:
            yield file.name, file.text or f"# {file.why}\n{as_yaml(file.documents)}"
        resources = [file.name for file in self.files if file.documents]
        apply = f"kubectl apply --server-side --field-manager=numaforge-{self.name} -k ."
        head = f"# {self.why}\n# {apply}\n"
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": resources,
        }
        yield "kustomization.yaml", head + as_yaml((kustomization,))


def generate(
    nodes: Sequence[ServedNode], names: Sequence[str] = (), gang_version: str | None = None
) -> tuple[Folder, ...]:
    """Return what each system, or those of these names, is told of some nodes; there has to be one.

    `gang_version` is that of Kubernetes' own PodGroup that the cluster serves, where it was asked.
    """
    folders = []
    for name in names or SYSTEMS:
        module, fleet = SYSTEMS[name], ServedFleet(tuple(nodes), gang_version=gang_version)
        files = tuple(module.documents(fleet))
        if not (names or files or fleet.left_out):
            continue
        folders.append(Folder(name, module.WHY, files, fleet.left_out))
    return tuple(folders)


def as_yaml(documents: Sequence[object]) -> str:
    """Return documents as one YAML text, their keys in order."""
    return yaml.safe_dump_all(
        documents, sort_keys=False, default_flow_style=False, width=_WIDTH, allow_unicode=True
    )
