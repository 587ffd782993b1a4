"""Find a kubelet's configuration in a document that embeds one.

OpenShift's KubeletConfig, multi-document kubeadm files and kubeadm's ConfigMap embed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

from numaforge.kubelet_minors.fields import API_VERSION, KIND
from numaforge.kubelet_minors.values.gojson import Path
from numaforge.kubelet_minors.values.goyaml import Document, YamlError, read, read_all
from numaforge.lib.given import mapping, mappings

KUBEADM_KINDS = ("InitConfiguration", "JoinConfiguration")
"""The kinds of kubeadm that give the kubelet flags."""
_FORMS: Mapping[str, type] = {
    "kubeadm.k8s.io/v1beta2": dict,
    "kubeadm.k8s.io/v1beta3": dict,
    "kubeadm.k8s.io/v1beta4": list,
}


class KubeadmError(ValueError):
    """kubeadm does not decode kubeletExtraArgs; the message says what it takes."""


class Embedded(NamedTuple):
    """A kubelet configuration in another document: the holder, its name, the path of its values there."""

    document: Document
    holder: str
    name: str
    path: Path


def embedded_in(text: str, first: Document) -> Iterator[Embedded]:
    """Yield the kubelet configurations inside OpenShift's or kubeadm's documents.

    `first` is the first document of the text. A plain KubeletConfiguration is not embedded, and the text
    after it, which may not be YAML, is not read. Raises YamlError.
    """
    if "kubelet" not in text:
        return
    for index, document in enumerate(chain((first,), _further(text, first))):
        data = document.data if isinstance(document.data, dict) else {}
        is_plain = data.get("kind") == KIND
        if not index and (is_plain or not data):
            return
        for at, entry in _entries(data):
            name = str(mapping(entry.get("metadata")).get("name") or f"document {index + 1}")
            if entry.get("kind") == "KubeletConfig" and str(entry.get("apiVersion", "")).startswith(
                "machineconfiguration.openshift.io/"
            ):
                yield from _openshift(document, entry, name, at)
            inner = mapping(entry.get("data")) if entry.get("kind") == "ConfigMap" else {}
            for key, value in inner.items():
                if isinstance(value, str) and KIND in value:
                    yield _config_map(document, value, f"{name}: {key}", (*at, "data", key))
        if is_plain:
            yield Embedded(document, "a kubeadm configuration", f"document {index + 1}", ())


def has_embedded(text: str, number: int) -> bool:
    """Whether a text embeds more than `number` configurations."""
    try:
        return any(islice(embedded_in(text, read(text)), number, None))
    except YamlError:
        return False


def kubeadm_arguments(text: str) -> tuple[str, ...]:
    """Return the flags that kubeadm gives the kubelet: kubeletExtraArgs of the documents in a text.

    Raises YamlError, and KubeadmError where kubeadm does not decode them.
    """
    if "kubeletExtraArgs" not in text:
        return ()
    return tuple(
        f"--{name}={value}" for document in read_all(text) for name, value in extra_arguments(document.data)
    )


def extra_arguments(data: object) -> list[tuple[str, str]]:
    """Return kubeletExtraArgs of a document of kubeadm, by name and value.

    v1beta4 has a list of names and values, the versions before it a map. Raises KubeadmError for what kubeadm
    does not decode.
    """
    if not isinstance(data, dict) or data.get("kind") not in KUBEADM_KINDS:
        return []
    node = data.get("nodeRegistration")
    arguments = node.get("kubeletExtraArgs") if isinstance(node, dict) else None
    form = _FORMS.get(str(data.get("apiVersion")), (list, dict))
    if arguments is not None and not isinstance(arguments, form):
        wanted = "FLAG: TEXT pairs" if form is dict else "a list of {name: FLAG, value: TEXT}"
        raise KubeadmError(f"{data.get('apiVersion')} has {wanted} here")
    listed = [(one.get("name"), one.get("value")) for one in mappings(arguments)]
    pairs = [*arguments.items()] if isinstance(arguments, dict) else listed
    if wrong := next((name for name, value in pairs if not isinstance(value, str | None)), None):
        raise KubeadmError(f"the value of {wrong} is not a text: put it in quotes")
    return [(str(name), value or "") for name, value in pairs]


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


def _openshift(document: Document, data: Mapping[str, Any], name: str, at: Path) -> Iterator[Embedded]:
    settings = mapping(data.get("spec")).get("kubeletConfig")
    if not isinstance(settings, dict):
        return
    path: Path = (*at, "spec", "kubeletConfig")
    depth = len(path)
    lines = {where[depth:]: line for where, line in document.lines.items() if where[:depth] == path}
    duplicates = tuple((where[depth:], line) for where, line in document.duplicates if where[:depth] == path)
    filled = {"apiVersion": API_VERSION, "kind": KIND, **settings}
    inner = Document(filled, lines, duplicates, document.strict_error)
    yield Embedded(inner, "an OpenShift KubeletConfig", name, path)


def _config_map(document: Document, text: str, name: str, path: Path) -> Embedded:
    inner = read(text)
    offset = document.lines[path]
    lines = {where: line + offset for where, line in inner.lines.items()}
    duplicates = tuple((where, line + offset) for where, line in inner.duplicates)
    return Embedded(Document(inner.data, lines, duplicates, inner.strict_error), "a ConfigMap", name, path)


def _further(text: str, first: Document) -> Iterator[Document]:
    """Yield the documents after the first, stopping at one that is not YAML."""
    if first.json:
        return
    try:
        yield from islice(read_all(text), 1, None)
    except YamlError:
        return
