"""Find a kubelet's configuration in a document that embeds one.

OpenShift's KubeletConfig, multi-document kubeadm files and kubeadm's ConfigMap embed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from numaforge.kubelet_minors.fields import API_VERSION, KIND
from numaforge.kubelet_minors.values.gojson import Path
from numaforge.kubelet_minors.values.goyaml import Document, YamlError, read, read_all

KUBEADM_KINDS = ("InitConfiguration", "JoinConfiguration")
"""The kinds of kubeadm that give the kubelet flags."""


@dataclass(frozen=True)
class Embedded:
    """A kubelet configuration found in another document: the holder, and the path of its values there."""

    document: Document
    holder: str
    path: Path


def find_embedded(text: str, first: Document) -> Embedded | None:
    """Return the kubelet configuration inside an OpenShift or kubeadm document, or None where there is none.

    `first` is the first document of the text. A plain KubeletConfiguration is not embedded, and the text
    after it, which may not be YAML, is not read. Raises YamlError.
    """
    if "kubelet" not in text:
        return None
    for index, document in enumerate(chain((first,), _further(text, first))):
        data = document.data if isinstance(document.data, dict) else {}
        kind = data.get("kind")
        for at, entry in _entries(data):
            if entry.get("kind") == "KubeletConfig" and str(entry.get("apiVersion", "")).startswith(
                "machineconfiguration.openshift.io/"
            ):
                return _openshift(document, entry, at)
            inner = entry.get("data") if entry.get("kind") == "ConfigMap" else None
            if isinstance(inner, dict) and isinstance(inner.get("kubelet"), str):
                return _config_map(document, inner["kubelet"], at)
        if kind == KIND:
            return Embedded(document, "a kubeadm configuration", ()) if index else None
        if not data:
            return None
    return None


def kubeadm_arguments(text: str) -> tuple[str, ...]:
    """Return the flags that kubeadm gives the kubelet: kubeletExtraArgs of the documents in a text.

    kubeadm's v1beta4 has a list of names and values, v1beta3 a map. Raises YamlError.
    """
    if "kubeletExtraArgs" not in text:
        return ()
    return tuple(
        f"--{name}={value}" for document in read_all(text) for name, value in _extra_arguments(document.data)
    )


def _extra_arguments(data: object) -> Iterator[tuple[object, object]]:
    if not isinstance(data, dict) or data.get("kind") not in KUBEADM_KINDS:
        return
    node = data.get("nodeRegistration")
    arguments = node.get("kubeletExtraArgs") if isinstance(node, dict) else None
    if isinstance(arguments, dict):
        yield from arguments.items()
    for argument in arguments if isinstance(arguments, list) else ():
        if isinstance(argument, dict):
            yield argument.get("name"), argument.get("value")


def is_openshift_without_settings(data: object) -> bool:
    """Say whether a document is an OpenShift KubeletConfig without spec.kubeletConfig."""
    if not isinstance(data, dict) or data.get("kind") != "KubeletConfig":
        return False
    spec = data.get("spec")
    return not isinstance(spec, dict) or not isinstance(spec.get("kubeletConfig"), dict)


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield a document, or those of a List, each with its path."""
    items = data.get("items") if str(data.get("kind")).endswith("List") else None
    if not isinstance(items, list):
        yield (), data
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield ("items", index), item


def _openshift(document: Document, data: Mapping[str, Any], at: Path) -> Embedded | None:
    spec = data.get("spec")
    settings = spec.get("kubeletConfig") if isinstance(spec, dict) else None
    if not isinstance(settings, dict):
        return None
    path: Path = (*at, "spec", "kubeletConfig")
    depth = len(path)
    lines = {where[depth:]: line for where, line in document.lines.items() if where[:depth] == path}
    duplicates = tuple((where[depth:], line) for where, line in document.duplicates if where[:depth] == path)
    filled = {"apiVersion": API_VERSION, "kind": KIND, **settings}
    return Embedded(
        Document(filled, lines, duplicates, document.strict_error), "an OpenShift KubeletConfig", path
    )


def _config_map(document: Document, text: str, at: Path) -> Embedded:
    path: Path = (*at, "data", "kubelet")
    inner = read(text)
    offset = document.lines[path]
    lines = {where: line + offset for where, line in inner.lines.items()}
    duplicates = tuple((where, line + offset) for where, line in inner.duplicates)
    return Embedded(Document(inner.data, lines, duplicates, inner.strict_error), "a kubeadm ConfigMap", path)


def _further(text: str, first: Document) -> Iterator[Document]:
    """Yield the documents after the first, stopping at one that is not YAML."""
    if first.json:
        return
    try:
        yield from islice(read_all(text), 1, None)
    except YamlError:
        return
