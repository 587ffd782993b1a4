"""Find a plugin's configuration in what deploys it: ConfigMaps, Lists, Helm values, a NicClusterPolicy."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import click

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.given import read_text

_OWN_KEYS = ("version", "flags", "sharing", "mig-configs", "configList")  # a file with none is another's
key_option = click.option("--key", metavar="NAME", help="Name of the configuration, in a file with several.")


def read_wrapped(path: str, key: str | None, is_one: Callable[[Mapping[str, Any]], bool]) -> tuple[str, str]:
    """Return a configuration, bare or by `key` in what deploys it, and its place; `is_one` tells it."""
    from numaforge.lib.wrapped import by_name, texts_in

    text = read_text(path)
    documents = _documents(text, path)
    if bare := [document for document in documents if is_one(document)]:
        return (json.dumps(bare[0]) if len(bare) == 1 < len(documents) else text), path
    texts = by_name(
        (owner, name, inner)
        for owner, name, inner in texts_in(documents, path)
        if any(is_one(one) for one in _documents(inner, name))
    )
    if key is not None and key not in texts:
        remedy = f"it has {', '.join(texts)}" if texts else "leave --key out"
        raise PlanError(f"has no configuration {key!r}", where=path, remedy=remedy)
    if not texts:
        _refuse_others(documents, text, path)
        return text, path
    if key is None and len(texts) > 1:
        remedy = f"name one: --key {' or --key '.join(texts)}"
        raise PlanError(f"holds {len(texts)} configurations", where=path, remedy=remedy)
    name = key if key is not None else next(iter(texts))
    return texts[name], f"{path}: {name}"


def _refuse_others(documents: Sequence[Mapping[str, Any]], text: str, path: str) -> None:
    """Refuse a file of another kind, with whose it is; one that may be meant is left to its reader."""
    from numaforge.lib.wrapped import config_maps_named, documents_in, texts_in
    from numaforge.planning.convert.forms import whose

    if named := [name for _, name, _ in config_maps_named(documents)]:
        raise PlanError(
            f"holds no configuration: its ClusterPolicy names the ConfigMap {' and '.join(named)}",
            where=path,
            remedy="give that ConfigMap, or both in one file",
        )
    inner = [(inner_text, f"{path}: {name}") for _, name, inner_text in texts_in(documents, path)]
    for other_text, where in [*inner, (text, path)]:
        if remedy := whose(other_text):
            raise PlanError("is not such a configuration", where=where, remedy=remedy)
    if len(inner) == 1:
        documents_in(*inner[0])  # says what is wrong with a text that is not YAML
    if kinds := [str(document["kind"]) for document in documents if document.get("kind")]:
        raise PlanError(f"holds no such configuration: it has the kind {', '.join(kinds)}", where=path)
    keys = [str(key) for document in documents for key, value in document.items() if isinstance(value, dict)]
    if len(keys) > 1 and not any(get_close_matches(key, _OWN_KEYS, n=1) for key in keys):
        raise PlanError(f"holds no such configuration: it has the keys {', '.join(keys[:5])}", where=path)


def remark_repeated(text: str, where: str) -> None:
    """Remark on keys that are written twice, where the last one counts."""
    from numaforge.lib.strict_yaml import read_manifests
    from numaforge.report.terminal import remark

    for place in read_manifests(text, where)[1]:
        remark(f"{where}, {place}")


def whose_file(path: str | None) -> str | None:
    """Return which other tool's file this is, and what to do with it; None where that is not known."""
    from numaforge.planning.convert.forms import whose

    return None if path in (None, "-") else whose(read_text(str(path)))


def _documents(text: str, where: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a text; none where it is not YAML."""
    from numaforge.lib.wrapped import documents_in

    with suppress(NumaforgeError):  # the reader of the configuration says what is wrong with it
        return documents_in(text, where)
    return []
