"""The shared RDMA device plugin: its configuration, written and read, and the PCI functions that it can use.

Sources, Mellanox/k8s-rdma-shared-dev-plugin v1.5.3: pkg/types/types.go, and ValidateConfigs in
pkg/resources/resources_manager.go. Go takes keys in any case, drops those that it does not know, and fills in
zeroes for what is missing. DiscoverHostDevices takes every network controller; NewPciNetDevice refuses one
whose RDMA devices, as /sys/bus/pci/devices/ADDRESS/infiniband lists them, lack a character device.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from numaforge.lib.errors import PlanError
from numaforge.lib.given import NotJsonError, parse_json
from numaforge.lib.ordering import grouped, natural
from numaforge.machine.topology.model import Nic, NodeTopology, RdmaDevice

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


SELECTORS = {
    "vendors": "vendor",
    "deviceIDs": "device",
    "drivers": "driver",
    "ifNames": "interface",
    "linkTypes": "link_type",
}
"""The plugin's selectors, in its order, each with the field of a function that it compares."""


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


def plugin_text(pools: Iterable[RdmaPool]) -> str:
    """Return the config.json for some pools as text, a line for each pool."""
    entries = ",\n".join(f"    {json.dumps(_entry(pool))}" for pool in pools)
    interval = DEFAULT_INTERVAL_SECONDS
    return f'{{\n  "periodicUpdateInterval": {interval},\n  "configList": [\n{entries}\n  ]\n}}\n'


def _entry(pool: RdmaPool) -> dict[str, Any]:
    prefix, name = pool.resource.split("/")
    selectors = {key: list(texts) for key, texts in pool.selectors.items()}
    return {"resourceName": name, "resourcePrefix": prefix, "rdmaHcaMax": pool.tokens, "selectors": selectors}


def parse_plugin_config(text: str, file: str) -> PluginConfig:
    """Parse a config.json; raises PlanError, with `file`, for what the plugin cannot read."""
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


_Kind = TypeVar("_Kind", dict[str, Any], list[Any], str, int)
_KINDS = {dict: "a mapping", list: "a list", str: "a text", int: "a whole number"}


class _ConfigReader:
    """Reads values as encoding/json does into the plugin's types: null counts as absent."""

    def __init__(self, file: str) -> None:
        self.place = file
        self.unknown: list[tuple[str, tuple[str, ...]]] = []

    def config(self, document: object) -> PluginConfig:
        fields = self._fields(document, "", _KEYS)
        entries = self._typed(fields.get("configList"), "configList", list)
        interval = fields.get("periodicUpdateInterval")
        return PluginConfig(
            None if interval is None else self._typed(interval, "periodicUpdateInterval", int),
            tuple(self._pool(entry, f"configList[{number}]") for number, entry in enumerate(entries)),
            tuple(self.unknown),
        )

    def _pool(self, entry: object, path: str) -> PoolConfig:
        fields = self._fields(entry, path, _RESOURCE_KEYS)
        selectors = self._fields(fields.get("selectors"), f"{path}.selectors", tuple(SELECTORS))
        return PoolConfig(
            path,
            self._typed(fields.get("resourceName"), f"{path}.resourceName", str),
            self._typed(fields.get("resourcePrefix"), f"{path}.resourcePrefix", str),
            self._typed(fields.get("rdmaHcaMax"), f"{path}.rdmaHcaMax", int),
            self._texts(fields.get("devices"), f"{path}.devices"),
            {name: self._texts(selectors.get(name), f"{path}.selectors.{name}") for name in SELECTORS},
        )

    def _fields(self, value: object, path: str, known_keys: tuple[str, ...]) -> dict[str, object]:
        in_lower = {key.lower(): key for key in known_keys}
        fields: dict[str, object] = {}
        for key, item in self._typed(value, path, dict).items():
            known_key = in_lower.get(key.lower())
            if known_key is None:
                self.unknown.append((f"{path}.{key}".removeprefix("."), known_keys))
            elif known_key in fields:
                raise PlanError(f"{key} is written twice, in two cases", where=self._at(path))
            else:
                fields[known_key] = item
        return fields

    def _texts(self, value: object, path: str) -> tuple[str, ...]:
        entries = self._typed(value, path, list)
        return tuple(self._typed(entry, f"{path}[{number}]", str) for number, entry in enumerate(entries))

    def _typed(self, value: object, path: str, kind: type[_Kind]) -> _Kind:
        if value is None:
            return kind()
        is_beyond = isinstance(value, int) and not -_INT64 <= value < _INT64
        if not isinstance(value, kind) or isinstance(value, bool) or is_beyond:
            raise PlanError(
                f"{json.dumps(value)[:80]} is not {_KINDS[kind]}: the plugin cannot read the file",
                where=self._at(path),
            )
        return value

    def _at(self, path: str) -> str:
        return f"{self.place}: {path}" if path else self.place


# ---- the functions that it can use ----

# pkg/resources/rdma_device_spec.go; it also requires /dev/infiniband/rdma_cm, which all devices share, and
# version 1.5.3 does not require issm.
REQUIRED = ("umad", "uverbs")
_WITHOUT_MAD = frozenset({"efa"})  # drivers whose devices have no management datagrams, and so no umad
_LINK_TYPES = {"InfiniBand": "infiniband", "Ethernet": "ether"}  # as in netlink's EncapType


class PluginFunction(NamedTuple):
    """A PCI function as the plugin's selectors see it; absent texts are ""."""

    address: str
    vendor: str
    device: str
    driver: str
    interface: str
    link_type: str
    devices: tuple[RdmaDevice, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its RDMA devices."""
        return tuple(device.name for device in self.devices)


def plugin_functions(topology: NodeTopology, *, software_devices: bool = False) -> dict[str, PluginFunction]:
    """Return the functions that the plugin can offer, by address; software devices at their interface's."""
    nics = grouped((nic.pci_address, nic) for nic in topology.nics)
    devices: dict[str, list[RdmaDevice]] = {}
    for device in topology.rdma_devices:
        address = device.pci_address or (address_of(device, topology.nics) if software_devices else None)
        if address is not None and not lacking(device, topology):
            devices.setdefault(address, []).append(device)
    return {
        address: _function(address, rdma_devices, nics.get(address, []))
        for address, rdma_devices in sorted(devices.items())
    }


def address_of(device: RdmaDevice, nics: Iterable[Nic]) -> str | None:
    """Return the PCI address of a device's function; for a software device, that of its interface."""
    if device.pci_address or device.interface is None:
        return device.pci_address
    return next((nic.pci_address for nic in nics if nic.interface == device.interface), None)


def lacking(device: RdmaDevice, topology: NodeTopology) -> tuple[str, ...]:
    """Return the kinds that a device lacks for good: other devices have them, or its driver never does."""
    missing = set(REQUIRED) - _kinds(device)
    shown = {kind for other_device in topology.rdma_devices for kind in _kinds(other_device)}
    never = {"umad"} if device.driver in _WITHOUT_MAD else set()
    return tuple(sorted(missing & (shown | never)))


def not_loaded(topology: NodeTopology) -> tuple[str, ...]:
    """Return the kinds of character devices that no RDMA device has, where other kinds exist."""
    shown = {kind for device in topology.rdma_devices for kind in _kinds(device)}
    return tuple(kind for kind in REQUIRED if shown and kind not in shown)


def selected(
    functions: Iterable[PluginFunction], selectors: Mapping[str, Sequence[str]]
) -> tuple[PluginFunction, ...]:
    """Return the functions that selectors choose: those that match an entry of every non-empty list.

    pkg/resources/resources_manager.go, GetFilteredDevices: texts must be equal.
    """
    return tuple(
        function
        for function in functions
        if all(getattr(function, SELECTORS[name]) in values for name, values in selectors.items() if values)
    )


def _function(address: str, devices: Sequence[RdmaDevice], nics: Sequence[Nic]) -> PluginFunction:
    # The plugin takes the first of a function's interfaces, by name (utils.GetNetNames).
    nic = min((nic for nic in nics if nic.interface), key=lambda nic: nic.interface or "", default=None)
    first = devices[0]
    link_layer = nic.link_layer if nic else None
    return PluginFunction(
        address,
        first.vendor or "",
        first.device or "",
        first.driver or next((nic.driver for nic in nics if nic.driver), ""),
        (nic and nic.interface) or "",
        _LINK_TYPES.get(link_layer or "", ""),
        tuple(sorted(devices, key=lambda device: natural(device.name))),
    )


def _kinds(device: RdmaDevice) -> set[str]:
    return {name.rstrip("0123456789") for name in device.character_devices}
