"""Names that Kubernetes objects have, the shared parts of those that numaforge writes, and readable YAML."""

from collections.abc import Mapping
from typing import Any

import yaml

Manifest = dict[str, Any]

CLIQUE = "nvidia.com/gpu.clique"
"""The tray's label, CLUSTER.CLIQUE, set by feature discovery or the DRA driver; CLUSTER is the rack."""
CPU_DRIVER = "dra.cpu"
"""The driver of CPUs by dynamic resource allocation (kubernetes-sigs/dra-driver-cpu)."""
ENDED_PHASES = ("Succeeded", "Failed")
"""The phases of a pod that has ended."""

WIDTH = 120
"""The longest line of a manifest."""


MANAGED_BY = {"app.kubernetes.io/managed-by": "numaforge"}


def metadata(name: str, namespace: str) -> Manifest:
    """Return the metadata of an object, with numaforge as its maker."""
    return {"name": name, "namespace": namespace, "labels": dict(MANAGED_BY)}


def manifest(
    api: str,
    kind: str,
    name: str,
    namespace: str = "",
    labels: Mapping[str, str] = MANAGED_BY,
    **sections: Any,
) -> Manifest:
    """Return an object with its sections, such as `spec`, in order; numaforge is its maker by default."""
    optional = {"namespace": namespace, "labels": dict(labels)}
    described = {"name": name, **{key: value for key, value in optional.items() if value}}
    return {"apiVersion": api, "kind": kind, "metadata": described, **sections}


def config_map(metadata: Manifest, data: Mapping[str, str], *, immutable: bool = False) -> Manifest:
    """Return a ConfigMap, its keys in order."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        **({"immutable": True} if immutable else {}),
        "data": dict(sorted(data.items())),
    }


def as_yaml(*documents: object) -> str:
    """Return documents as one YAML text, their keys in order; texts of several lines stay readable."""
    return yaml.dump_all(
        documents,
        Dumper=_BlockTexts,
        sort_keys=False,
        default_flow_style=False,
        width=WIDTH,
        allow_unicode=True,
    )


class _BlockTexts(yaml.SafeDumper):
    """Writes readable YAML: texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, _data: object) -> bool:
        """Return True: write no aliases."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_BlockTexts.add_representer(str, _text)
