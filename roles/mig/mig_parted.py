"""mig-parted's configuration file, read strictly: only released keys are accepted.

Source: mig-parted, api/spec/v1. In mig-parted an unreadable filter matches nothing, and a count of 0 is a
difference that it applies at each run; here both are errors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.section import Section, validated
from numaforge.lib.strict_yaml import read_last_keys
from numaforge.roles.mig.names import MOST_DEVICES, parse_profile_name

_FILTER = re.compile(
    "0x(?P<device>[0-9a-f]{4})(?P<vendor>[0-9a-f]{4})(?P<subsystem>:0x[0-9a-f]{8})?", re.IGNORECASE
)


@dataclass(frozen=True)
class DeviceFilter:
    """A GPU's PCI ids in lower case, from `0xDDDDVVVV[:0xSSSSVVVV]`; `subsystem` may be empty."""

    text: str
    vendor: str
    device: str
    subsystem: str


def _device_filters(value: object) -> tuple[DeviceFilter, ...]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError("the list is empty; leave device-filter out to take every GPU")
    return tuple(_device_filter(one) for one in values)


def _device_filter(value: object) -> DeviceFilter:
    match = _FILTER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(
            f"{value!r} is not a device filter; write device and vendor in quotes, for example "
            '"0x233010DE", or with the subsystem "0x233010DE:0x16C010DE"'
        )
    subsystem = (match["subsystem"] or "")[3:].lower()
    return DeviceFilter(match[0], match["vendor"].lower(), match["device"].lower(), subsystem)


def _devices(value: object) -> tuple[int, ...] | None:
    if value == "all":
        return None
    if not isinstance(value, list) or not value or not all(type(one) is int and one >= 0 for one in value):
        raise ValueError(f"{value!r} names no GPUs; write all, or a list of indices such as [0, 1]")
    if len(set(value)) != len(value):
        raise ValueError(f"{value!r} names a GPU twice; write each index once")
    return tuple(value)


def _mig_devices(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping; write counts by profile, for example {{1g.10gb: 2}}")
    for name, count in value.items():
        try:
            parse_profile_name(str(name))
        except NumaforgeError as error:
            raise ValueError(str(error)) from error
        if type(count) is not int or not 1 <= count <= MOST_DEVICES:
            raise ValueError(
                f"{name}: {count!r} is not a count; write 1 to {MOST_DEVICES}, or leave the profile out"
            )
    return value


def _not_empty(value: object) -> object:
    if value in ([], {}):
        raise ValueError("is empty; write at least one config, with at least one entry")
    return value


class MigConfigEntry(Section):
    """What some GPUs get. `devices` are indices in PCI order, or None for all of them."""

    device_filter: Annotated[tuple[DeviceFilter, ...], BeforeValidator(_device_filters)] = Field(
        default=(), alias="device-filter"
    )
    devices: Annotated[tuple[int, ...] | None, BeforeValidator(_devices)]
    mig_enabled: bool = Field(alias="mig-enabled", strict=True)
    mig_devices: Annotated[dict[str, int] | None, BeforeValidator(_mig_devices)] = Field(
        default=None, alias="mig-devices"
    )

    @model_validator(mode="after")
    def _devices_where_enabled(self) -> Self:
        if self.mig_enabled and self.mig_devices is None:
            raise ValueError(
                "mig-enabled is true without mig-devices; write mig-devices: {} for the mode alone"
            )
        if not self.mig_enabled and self.mig_devices:
            raise ValueError("mig-devices has profiles while mig-enabled is false; leave mig-devices out")
        return self


class MigConfigFile(Section):
    """A file of mig-parted: named lists of entries."""

    version: Literal["v1"]
    mig_configs: Annotated[
        dict[str, Annotated[tuple[MigConfigEntry, ...], BeforeValidator(_not_empty)]],
        BeforeValidator(_not_empty),
    ] = Field(alias="mig-configs")


def parse_config(text: str, file: str, only: str | None = None) -> Mapping[str, tuple[MigConfigEntry, ...]]:
    """Return the configs of a file by name, or the one named; messages name it `file`.

    Mistakes in other configs than that one do not count, as for mig-parted, and the last one of repeated keys
    wins. Raises PlanError with every mistake.
    """
    document = _read(text, file)
    configs = document.get("mig-configs")
    if only is not None and isinstance(configs, dict):
        if only not in configs:
            raise PlanError(f"has no config {only!r}", where=file, remedy=f"it has {', '.join(configs)}")
        document = {**document, "mig-configs": {only: configs[only]}}
    return validated(MigConfigFile, document, file, error=PlanError).mig_configs


def _read(text: str, file: str) -> dict[str, Any]:
    document, _ = read_last_keys(text, file, PlanError)
    if not isinstance(document, dict):
        raise PlanError(
            "not a configuration of mig-parted", where=file, remedy="begin with version: v1 and mig-configs:"
        )
    return document
