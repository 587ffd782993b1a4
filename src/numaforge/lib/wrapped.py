"""Find texts in what deploys them: ConfigMaps, Lists, Helm values, a NicClusterPolicy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numaforge.lib.errors import PlanError
from numaforge.lib.given import mapping, mappings
from numaforge.lib.strict_yaml import read_yaml_documents

_CONFIGS = (
    ("config", "map"),
    ("config", "data"),
    ("devicePlugin", "config", "data"),
    ("migManager", "config", "data"),
)
"""Where the charts of the device plugin and the GPU operator have configurations by name.

Beside each is `default`, the name of the one that a node without a label takes.
"""
_POLICY = ("spec", "rdmaSharedDevicePlugin", "config")


def documents_in(text: str, where: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a YAML text, those in a List separately. Raises NumaforgeError."""
    return [
        one
        for document in map(mapping, read_yaml_documents(text, where))
        for one in (mappings(document.get("items")) or [document])
    ]


def by_name(texts: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return texts by name, or by OBJECT/NAME where objects share a name."""
    listed = list(texts)
    counts = Counter(name for _, name, _ in listed)
    return {f"{owner}/{name}" if counts[name] > 1 else name: text for owner, name, text in listed}


def texts_in(document: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the texts in a document that deploys them: owner, name, text.

    Raises PlanError for a chart whose default names a missing one.
    """
    owner = str(mapping(document.get("metadata")).get("name"))
    if document.get("kind") == "ConfigMap":
        yield from _by_owner(owner, document.get("data"))
    policy = _at(document, _POLICY)
    if isinstance(policy, str):
        yield owner, ".".join(_POLICY), policy
    for config_path in _CONFIGS:
        texts = _at(document, config_path)
        if not isinstance(texts, Mapping):
            continue
        default = mapping(_at(document, config_path[:-1])).get("default")
        if default and default not in texts:
            raise PlanError(
                f"the default {default!r} is not one of the configurations: {', '.join(map(str, texts))}",
                where=f"{path}: {'.'.join(config_path[:-1])}.default",
                remedy="name one of them",
            )
        yield from _by_owner(owner, texts)


def _by_owner(owner: str, texts: object) -> Iterator[tuple[str, str, str]]:
    yield from ((owner, str(name), text) for name, text in mapping(texts).items() if isinstance(text, str))


def _at(document: Mapping[str, Any], key_path: tuple[str, ...]) -> object:
    entry: object = document
    for key in key_path:
        entry = mapping(entry).get(key)
    return entry
