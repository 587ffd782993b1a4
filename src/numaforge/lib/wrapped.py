"""Find texts in what deploys them: ConfigMaps, Lists, Helm values, a NicClusterPolicy."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.given import mapping, mappings
from numaforge.lib.strict_yaml import read_manifests

_CONFIGS = (
    ("config", "map"),
    ("config", "data"),
    ("devicePlugin", "config", "data"),
    ("migManager", "config", "data"),
)
"""Where the charts of the device plugin and the GPU operator have configurations by name.

Beside each is `default`, the name of the one that a node without a label takes: of a text, and of MIG Manager
a configuration in its text.
"""
_PLUGIN, _MIG = "devicePlugin", "migManager"
_LABELS = {_PLUGIN: "nvidia.com/device-plugin.config", _MIG: "nvidia.com/mig.config"}
"""The label by which a node chooses its configuration, by the component of a ClusterPolicy."""
_POLICIES = tuple(("spec", plugin, "config") for plugin in ("rdmaSharedDevicePlugin", "sriovDevicePlugin"))
_HELM_CHARTS = ("HelmChart", "HelmChartConfig")
"""Kinds of k3s and RKE2 with Helm values as a text."""


def documents_in(text: str, where: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a YAML text, those in a List separately. Raises NumaforgeError."""
    documents: list[Mapping[str, Any]] = []
    for document in map(mapping, read_manifests(text, where)[0]):
        kind = str(document.get("kind") or "").removesuffix("List")
        of_kind = {"kind": kind} if kind else {}  # the items of a ConfigMapList have none
        documents += [{**of_kind, **one} for one in mappings(document.get("items"))] or [document]
    return documents


def by_name(texts: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return texts by name, or by OBJECT/NAME where objects share a name."""
    listed = list(texts)
    counts = Counter(name for _, name, _ in listed)
    return {f"{owner}/{name}" if counts[name] > 1 else name: text for owner, name, text in listed}


def texts_in(documents: Sequence[Mapping[str, Any]], path: str) -> Iterator[tuple[str, str, str]]:
    """Yield owner, name and text; raises PlanError for a default or a Node's label of a missing one."""
    maps = {_name(one): mapping(one.get("data")) for one in documents if one.get("kind") == "ConfigMap"}
    if problems := [*_missing_names(documents, maps)]:
        raise PlanError("; ".join(problems), where=path, remedy="name a configuration that exists")
    for owner, texts in maps.items():
        yield from _by_owner(owner, texts)
    for document in documents:
        for policy_path in _POLICIES:
            if isinstance(policy := _at(document, policy_path), str):
                yield _name(document), ".".join(policy_path), policy
        for values in _helm_values(document, path):
            yield from _in_values(values, _name(document), path)


def _in_values(values: Mapping[str, Any], owner: str, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the texts in Helm values; of the network operator's, before 24.10, its pools."""
    if pools := mappings(_at(values, ("rdmaSharedDevicePlugin", "resources"))):
        entries = [
            {
                "resourceName": pool.get("name"),
                "rdmaHcaMax": pool.get("rdmaHcaMax", 63),
                "selectors": {key: pool[key] for key in pool if key not in ("name", "rdmaHcaMax")},
            }
            for pool in pools
        ]
        yield owner, "rdmaSharedDevicePlugin.resources", json.dumps({"configList": entries})
    for config_path in _CONFIGS:
        if texts := mapping(_at(values, config_path)):
            holder = config_path[:-1]
            default = mapping(_at(values, holder)).get("default")
            if problem := _missing_name(holder[0], texts, default, f"{'.'.join(holder)}.default"):
                raise PlanError(problem, where=path, remedy="name a configuration that exists")
            yield from _by_owner(owner, texts)


def config_maps_named(documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, object]]:
    """Yield the ConfigMaps that ClusterPolicies name: component, name, default."""
    for document in documents:
        for component in _LABELS if document.get("kind") == "ClusterPolicy" else ():
            config = mapping(_at(document, ("spec", component, "config")))
            if config.get("name"):
                yield component, str(config["name"]), config.get("default")


def _missing_names(
    documents: Sequence[Mapping[str, Any]], maps: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the defaults and the labels of Nodes that name no configuration of their ConfigMap."""
    for component, name, default in config_maps_named(documents):
        if name not in maps:
            continue
        chosen = [(f"spec.{component}.config.default", default)]
        for node in (one for one in documents if one.get("kind") == "Node"):
            label = _LABELS[component]
            value = mapping(mapping(node.get("metadata")).get("labels")).get(label)
            chosen.append((f"the label {label} of {_name(node)}", value))
        problems = (_missing_name(component, maps[name], value, where) for where, value in chosen)
        yield from filter(None, problems)


def _missing_name(component: str, texts: Mapping[str, Any], chosen: object, where: str) -> str | None:
    """Return that a name is of no configuration: of a text, or of MIG Manager, in its texts."""
    names: list[str] = [*map(str, texts)]
    if component == _MIG:
        readable = (text for text in texts.values() if isinstance(text, str))
        with suppress(NumaforgeError):  # its reader says what is wrong with it
            names = [
                str(name)
                for text in readable
                for one in documents_in(text, where)
                for name in mapping(one.get("mig-configs"))
            ]
    if not chosen or chosen in names or not names:
        return None
    return f"{where}: {chosen!r} is not one of the configurations: {', '.join(names)}"


def _helm_values(document: Mapping[str, Any], path: str) -> Iterator[Mapping[str, Any]]:
    """Yield Helm values, those of subcharts too: a file, Flux' HelmRelease, Argo CD's Application."""
    values_text = mapping(document.get("spec")).get("valuesContent")
    if "kind" not in document:
        values = [document]
    elif document["kind"] in _HELM_CHARTS:
        values = documents_in(values_text, path) if isinstance(values_text, str) else []
    elif document["kind"] == "Application":
        spec = mapping(document.get("spec"))
        helms = [
            mapping(one.get("helm")) for one in (mapping(spec.get("source")), *mappings(spec.get("sources")))
        ]
        texts = [helm["values"] for helm in helms if isinstance(helm.get("values"), str)]
        values = [mapping(helm.get("valuesObject")) for helm in helms]
        values += [one for text in texts for one in documents_in(text, path)]
    else:
        values = [mapping(_at(document, ("spec", "values")))]
    for one in values:
        yield one
        yield from (mapping(value) for name, value in one.items() if name not in (*_LABELS, "config"))


def _name(document: Mapping[str, Any]) -> str:
    return str(mapping(document.get("metadata")).get("name"))


def _by_owner(owner: str, texts: object) -> Iterator[tuple[str, str, str]]:
    yield from ((owner, str(name), text) for name, text in mapping(texts).items() if isinstance(text, str))


def _at(document: Mapping[str, Any], key_path: tuple[str, ...]) -> object:
    entry: object = document
    for key in key_path:
        entry = mapping(entry).get(key)
    return entry
