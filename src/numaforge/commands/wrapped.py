"""Find a plugin's configuration in what deploys it: ConfigMaps, Lists, Helm values, a NicClusterPolicy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import click

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.given import mapping, mappings, read_text

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

key_option = click.option("--key", metavar="NAME", help="Name of the configuration, in a file with several.")


def read_wrapped(path: str, key: str | None, is_one: Callable[[Mapping[str, Any]], bool]) -> tuple[str, str]:
    """Return the text of a configuration in a file, and its place; a bare one as it is.

    `is_one` tells such configurations. Raises PlanError for several without a matching `key`, and for a chart
    whose default names a missing configuration.
    """
    text = read_text(path)
    documents = _documents(text, path)
    if any(is_one(document) for document in documents):
        return text, path
    texts = _by_name(
        (owner, name, inner)
        for document in documents
        for owner, name, inner in _texts(document, path)
        if any(is_one(one) for one in _documents(inner, name))
    )
    if key is not None and key not in texts:
        remedy = f"it has {', '.join(texts)}" if texts else "leave --key out"
        raise PlanError(f"has no configuration {key!r}", where=path, remedy=remedy)
    if not texts:
        if whose := _whose(text):
            raise PlanError("is not such a configuration", where=path, remedy=whose)
        return text, path
    if key is None and len(texts) > 1:
        remedy = f"name one: --key {' or --key '.join(texts)}"
        raise PlanError(f"holds {len(texts)} configurations", where=path, remedy=remedy)
    name = key if key is not None else next(iter(texts))
    return texts[name], f"{path}: {name}"


def whose_file(path: str | None) -> str | None:
    """Return which other tool's file this is, and what to do with it; None where that is not known."""
    return None if path in (None, "-") else _whose(read_text(str(path)))


def _whose(text: str) -> str | None:
    from numaforge.planning.convert.forms import whose

    return whose(text)


def _documents(text: str, where: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a text, those in a List separately; none where it is not YAML."""
    from numaforge.lib.strict_yaml import read_yaml_documents

    with suppress(NumaforgeError):  # the reader of the configuration says what is wrong with it
        documents = list(read_yaml_documents(text, where))
        return [
            one
            for document in map(mapping, documents)
            for one in (mappings(document.get("items")) or [document])
        ]
    return []


def _by_name(texts: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return texts by name, or by OBJECT/NAME where objects share a name."""
    listed = list(texts)
    counts = Counter(name for _, name, _ in listed)
    return {f"{owner}/{name}" if counts[name] > 1 else name: text for owner, name, text in listed}


def _texts(document: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the texts that may be configurations in a document that deploys them: owner, name, text."""
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
