"""The configuration of the shared RDMA device plugin: written from pools, and read as the plugin reads it.

Source: Mellanox/k8s-rdma-shared-dev-plugin v1.5.3, pkg/types/types.go and ValidateConfigs in
pkg/resources/resources_manager.go. Go takes keys in any case, drops those that it does not know, and fills in
zeroes for what is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from numaforge.lib.errors import PlanError
from numaforge.lib.given import NotJsonError, parse_json
from numaforge.roles.rdma.pool_functions import SELECTORS

if TYPE_CHECKING:
    from numaforge.roles.rdma.planned import RdmaPool

DEFAULT_INTERVAL_SECONDS = 60
DEFAULT_PREFIX = "rdma"
_NEW_FIELD = "\N{LEFT DOUBLE QUOTATION MARK}selectors\N{RIGHT DOUBLE QUOTATION MARK} field"
_NAME = re.compile(r"[a-zA-Z0-9_]+")
_NANOSECONDS = 10**9
_INT64 = 2**63
_KEYS = ("periodicUpdateInterval", "configList")
_RESOURCE_KEYS = ("resourceName", "resourcePrefix", "rdmaHcaMax", "devices", "selectors")


class PoolConfig(NamedTuple):
    """An entry of configList, as the plugin reads it; `place` is its path: `configList[0]`."""

    place: str
    name: str
    prefix: str
    tokens: int
    devices: tuple[str, ...]
    own_selectors: Mapping[str, tuple[str, ...]]

    @property
    def resource(self) -> str:
        """The resource's name for the kubelet."""
        return f"{self.prefix or DEFAULT_PREFIX}/{self.name}"

    @property
    def selectors(self) -> Mapping[str, tuple[str, ...]]:
        """The selectors in effect: `devices` is the old name of `selectors.ifNames`."""
        return self.own_selectors if any(self.own_selectors.values()) else {"ifNames": self.devices}


class PluginConfig(NamedTuple):
    """A config.json; `unknown` are the keys that the plugin drops, each with the known keys at its place."""

    interval: int | None
    pools: tuple[PoolConfig, ...]
    unknown: tuple[tuple[str, tuple[str, ...]], ...] = ()


def plugin_document(pools: Iterable[RdmaPool]) -> dict[str, Any]:
    entries = []
    for pool in pools:
        prefix, name = pool.resource.split("/")
        selectors = {key: list(texts) for key, texts in pool.selectors.items()}
        entries.append(
            {
                "resourceName": name,
                "resourcePrefix": prefix,
                "rdmaHcaMax": pool.tokens,
                "selectors": selectors,
            }
        )
    return {"periodicUpdateInterval": DEFAULT_INTERVAL_SECONDS, "configList": entries}


def plugin_text(pools: Iterable[RdmaPool]) -> str:
    """Return the config.json for some pools as text, a line for each pool."""
    document = plugin_document(pools)
    entries = ",\n".join(f"    {json.dumps(entry)}" for entry in document["configList"])
    return (
        f'{{\n  "periodicUpdateInterval": {document["periodicUpdateInterval"]},\n'
        f'  "configList": [\n{entries}\n  ]\n}}\n'
    )


def parse_plugin_config(text: str, file: str) -> PluginConfig:
    """Parse a config.json; messages name it `file`.

    Raises PlanError for what the plugin cannot read, and for keys that are written twice.
    """
    try:
        document = parse_json(text)
    except NotJsonError as error:
        raise PlanError(f"not valid JSON: {error}", where=file) from error
    return _ConfigReader(file).config(document)


def refusal(config: PluginConfig) -> tuple[str, str] | None:
    """Return the place that the plugin rejects, and its message; None where it starts."""
    nanoseconds = (config.interval or 0) * _NANOSECONDS
    wrapped = (nanoseconds + _INT64) % (2 * _INT64) - _INT64  # as a time.Duration holds it
    if wrapped < 0:
        return "periodicUpdateInterval", f'invalid "periodicUpdateInterval" configuration "{wrapped}"'
    if not config.pools:
        return "configList", "no resources configuration found"
    names: set[str] = set()
    for pool in config.pools:
        if complaint := _pool_refusal(pool, names):
            return f"{pool.place}{complaint[0]}", complaint[1]
        names.add(pool.name)
    return None


def _pool_refusal(pool: PoolConfig, names: set[str]) -> tuple[str, str] | None:
    if not _NAME.fullmatch(pool.name):
        return ".resourceName", f'error: resource name "{pool.name}" contains invalid characters'
    if pool.name in names:
        return ".resourceName", f'error: resource name "{pool.name}" already exists'
    if pool.tokens < 0:
        return ".rdmaHcaMax", f"error: Invalid value for rdmaHcaMax < 0: {pool.tokens}"
    selects = any(pool.own_selectors.values())
    if not selects and not pool.devices:
        return "", (
            'error: configuration missmatch. neither "selectors" nor "devices" fields exits, it is '
            f"recommended to use the new {_NEW_FIELD}"
        )
    if selects and pool.devices:
        return "", 'configuration mismatch. Cannot specify both "selectors" and "devices" fields'
    return None


class _ConfigReader:
    """Reads values as encoding/json does into the plugin's types: null counts as absent."""

    def __init__(self, file: str) -> None:
        self.place = file
        self.unknown: list[tuple[str, tuple[str, ...]]] = []

    def config(self, document: object) -> PluginConfig:
        fields = self._mapping(document, "", _KEYS)
        entries = self._list(fields.get("configlist"), "configList")
        interval = fields.get("periodicupdateinterval")
        return PluginConfig(
            None if interval is None else self._integer(interval, "periodicUpdateInterval"),
            tuple(self._pool(entry, f"configList[{number}]") for number, entry in enumerate(entries)),
            tuple(self.unknown),
        )

    def _pool(self, entry: object, path: str) -> PoolConfig:
        fields = self._mapping(entry, path, _RESOURCE_KEYS)
        selectors = self._mapping(fields.get("selectors"), f"{path}.selectors", tuple(SELECTORS))
        return PoolConfig(
            path,
            self._text(fields.get("resourcename"), f"{path}.resourceName"),
            self._text(fields.get("resourceprefix"), f"{path}.resourcePrefix"),
            self._integer(fields.get("rdmahcamax"), f"{path}.rdmaHcaMax"),
            self._texts(fields.get("devices"), f"{path}.devices"),
            {
                name: self._texts(selectors.get(name.lower()), f"{path}.selectors.{name}")
                for name in SELECTORS
            },
        )

    def _mapping(self, value: object, path: str, known_keys: tuple[str, ...]) -> dict[str, object]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._refuse(value, path, "a mapping")
        fields: dict[str, object] = {}
        for key, item in value.items():
            if key.lower() not in {known_key.lower() for known_key in known_keys}:
                self.unknown.append((f"{path}.{key}".removeprefix("."), known_keys))
            elif key.lower() in fields:
                raise PlanError(f"{key} is written twice, in two cases", where=self._at(path))
            else:
                fields[key.lower()] = item
        return fields

    def _list(self, value: object, path: str) -> list[object]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._refuse(value, path, "a list")
        return value

    def _texts(self, value: object, path: str) -> tuple[str, ...]:
        entries = self._list(value, path)
        return tuple(self._text(entry, f"{path}[{number}]") for number, entry in enumerate(entries))

    def _text(self, value: object, path: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            self._refuse(value, path, "a text")
        return value

    def _integer(self, value: object, path: str) -> int:
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or not -_INT64 <= value < _INT64:
            self._refuse(value, path, "a whole number")
        return value

    def _refuse(self, value: object, path: str, kind: str) -> NoReturn:
        raise PlanError(
            f"{json.dumps(value)[:80]} is not {kind}: the plugin cannot read the file", where=self._at(path)
        )

    def _at(self, path: str) -> str:
        return f"{self.place}: {path}" if path else self.place
