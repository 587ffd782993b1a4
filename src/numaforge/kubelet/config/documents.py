"""Find a kubelet's configuration in a document that embeds one.

OpenShift's KubeletConfig, multi-document kubeadm files, ConfigMaps and an answer of /configz embed one.
"""

import re
import shlex
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

_EXTRA_ARGS = re.compile(r"--kubelet-extra-args[ =]+")  # EKS' bootstrap.sh
_FLAGS = re.compile(r"(?:(?:Environment=)?KUBELET_\w*ARGS=|ExecStart=\S*/kubelet$)(?P<flags>.*)", re.DOTALL)
_SIGN_OF_FLAGS = re.compile(r"--\w|ARGS|ExecStart")


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
                settings = mapping(entry.get("spec")).get("kubeletConfig")
                path: Path = (*at, "spec", "kubeletConfig")
                yield from _settings(document, settings, "an OpenShift KubeletConfig", name, path)
            if "kind" not in entry and "kubeletconfig" in entry:
                holder = "an answer of the kubelet's /configz"
                yield from _settings(document, entry["kubeletconfig"], holder, name, (*at, "kubeletconfig"))
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


def is_followed(text: str, first: Document) -> bool:
    """Whether documents with content follow the first one."""
    return "\n---" in text and any(document.data for document in _further(text, first))


def arguments_in(text: str) -> tuple[tuple[str, ...], str]:
    """Return the flags that a text gives the kubelet, and what it is where it is a text of flags alone.

    kubeadm's kubeletExtraArgs, the kubelet-arg of k3s and RKE2, or a file of flags. Raises YamlError, and
    KubeadmError where kubeadm does not decode them.
    """
    if (flags := read_flags(text)) is not None:
        return tuple(flag for flag in flags if not flag.startswith("$")), "flags of a kubelet"
    if "kubeletExtraArgs" not in text and "kubelet-arg" not in text:
        return (), ""
    documents = [document.data for document in read_all(text)]
    of_k3s = [k3s_arguments(data) for data in documents if isinstance(data, dict) and "kind" not in data]
    of_kubeadm = [f"--{name}={value}" for data in documents for name, value in extra_arguments(data)]
    return (*of_kubeadm, *chain.from_iterable(of_k3s)), "a config.yaml of k3s or RKE2" if any(of_k3s) else ""


def k3s_arguments(data: Mapping[str, Any]) -> list[str]:
    """Return the kubelet's flags in a config.yaml of k3s or RKE2."""
    given = [data.get(name) for name in ("kubelet-arg", "kubelet-arg+")]
    words = [
        str(word) for entry in given if entry for word in (entry if isinstance(entry, list) else [entry])
    ]
    return [word if word.startswith("-") else f"--{word}" for word in words]


def read_flags(text: str) -> list[str] | None:
    """Return the flags in a file of a kubelet's flags, a unit, or a script; None for another file.

    Lines that are indented are those of a text within YAML.
    """
    if not _SIGN_OF_FLAGS.search(text):  # as in almost every configuration: splitting its lines takes a while
        return None
    at_margin = (line for line in text.replace("\\\n", " ").splitlines() if line[:1] not in (*" \t#;", ""))
    lines = [words for line in at_margin if (words := _split(line))]
    if lines and all(re.match(r"--\w", words[0]) for words in lines):
        return [word for words in lines for word in words]
    flags: list[str] | None = None
    for words in (words for words in lines if not words[0].endswith((":", "-"))):
        for number, word in enumerate(words):
            if match := _FLAGS.fullmatch(word):
                flags = [*(flags or ()), *_split(match["flags"]), *(words[1:] if number == 0 else ())]
    return flags


def _split(line: str) -> list[str]:
    try:
        return shlex.split(_EXTRA_ARGS.sub("KUBELET_EXTRA_ARGS=", line))
    except ValueError:
        return line.split()


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


def _settings(document: Document, settings: object, holder: str, name: str, path: Path) -> Iterator[Embedded]:
    if not isinstance(settings, dict):
        return
    depth = len(path)
    lines = {where[depth:]: line for where, line in document.lines.items() if where[:depth] == path}
    duplicates = tuple((where[depth:], line) for where, line in document.duplicates if where[:depth] == path)
    filled = {"apiVersion": API_VERSION, "kind": KIND, **settings}
    inner = Document(filled, lines, duplicates, document.strict_error)
    yield Embedded(inner, holder, name, path)


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
