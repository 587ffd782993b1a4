"""Section `mig`: how GPUs are cut into MIG instances; also as a configuration file of mig-parted.

That file is read strictly: only released keys are accepted. Source: mig-parted, api/spec/v1. In mig-parted an
unreadable filter matches nothing, and a count of 0 is a difference that it applies at each run; here both are
errors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.section import Section, at_most_one_of, given, validated
from numaforge.lib.section_values import Count, as_text, fits
from numaforge.lib.strict_yaml import read_last_keys
from numaforge.roles.mig.names import MOST_DEVICES, NAME_PATTERN, parse_profile_name

# ---- a configuration of mig-parted ----

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


def _some_entries(value: object) -> object:
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
        dict[str, Annotated[tuple[MigConfigEntry, ...], BeforeValidator(_some_entries)]],
        BeforeValidator(_some_entries),
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


# ---- the section ----

ALL = "all"

_SELECTIONS = ("model", "indices", "uuids")
_GEOMETRIES = ("devices", "placements")
_ANSWERS = ("mode", *_GEOMETRIES)
_SERVICE = re.compile(r"[A-Za-z0-9:_.@\\-]+\.service")


def _profile_name(value: str) -> str:
    try:
        parse_profile_name(value, short=True)
    except NumaforgeError as error:
        raise ValueError(error.message) from error
    return value


def _device_count(value: object) -> object:
    if value == ALL or (type(value) is int and 1 <= value <= MOST_DEVICES):
        return value
    raise ValueError(
        f"{value!r} is not a count; write 1 to {MOST_DEVICES}, or all for as many as fit, or leave it out"
    )


def _some_each_once(values: tuple[int | str, ...]) -> tuple[int | str, ...]:
    if not values:
        raise ValueError("the list is empty; leave the key out, or name at least one")
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"has {value} twice; write it once")
    return values


def _without_compute_instances(placements: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    for name in placements:
        if parse_profile_name(name, short=True).compute is not None:
            raise ValueError(f"{name} is a compute instance; place GPU instances, or count it in devices")
    return placements


def _not_empty(value: dict[str, object] | None) -> dict[str, object] | None:
    if value == {}:
        raise ValueError("is empty; write mode: enabled for MIG without GPU instances")
    return value


def _never_together(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {"not": {"allOf": [first, second]}}


ProfileText = Annotated[str, AfterValidator(_profile_name), as_text("MIG profile", f"^({NAME_PATTERN})$")]
DeviceCount = Annotated[
    int | str,
    BeforeValidator(_device_count),
    as_text("device count", f"^{ALL}$", or_a=("integer",), minimum=1, maximum=MOST_DEVICES),
]
UnitName = Annotated[
    str,
    AfterValidator(
        fits(_SERVICE, "is not the name of a service; write it whole, such as nvidia-dcgm.service")
    ),
    as_text("systemd service", f"^{_SERVICE.pattern}$"),
]
_EACH_ONCE = Field(json_schema_extra={"minItems": 1, "uniqueItems": True})
Numbers = Annotated[tuple[Count, ...], AfterValidator(_some_each_once), _EACH_ONCE]
Uuids = Annotated[tuple[str, ...], AfterValidator(_some_each_once), _EACH_ONCE]
_SOME = Field(json_schema_extra={"minProperties": 1})


class MigGpus(Section):
    """The MIG layout of GPUs: of all, or of those that one of model, indices and uuids selects."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                at_most_one_of(*_SELECTIONS),
                at_most_one_of(*_GEOMETRIES),
                {"anyOf": [given(key) for key in _ANSWERS]},
                *(_never_together(given("mode", {"const": "disabled"}), given(key)) for key in _GEOMETRIES),
            ]
        }
    )

    model: str | None = Field(
        default=None,
        description="Only GPUs of this model: a key or a PCI id, as `numaforge mig explain` accepts it.",
        examples=["h100-80gb"],
    )
    indices: Numbers | None = Field(
        default=None, description="Only these GPUs, by NVML's index (PCI order).", examples=[[0, 1]]
    )
    uuids: Uuids | None = Field(
        default=None,
        description="Only the GPUs with these UUIDs.",
        examples=[["GPU-8a5c1a2e-0f4b-4f7e-9a49-6a7d3c2b1e10"]],
    )
    mode: Literal["enabled", "disabled"] | None = Field(
        default=None,
        description="disabled leaves the GPUs whole; enabled alone is MIG without GPU instances. Unset: "
        "enabled if devices or placements are given.",
        examples=["disabled"],
    )
    devices: Annotated[dict[ProfileText, DeviceCount], AfterValidator(_not_empty), _SOME] | None = Field(
        default=None,
        description="The number of MIG devices by profile. A name without memory means the smallest profile "
        "with that many slices; all means as many as fit beside the others.",
        examples=[{"3g": 1, "1g": 4}, {"1g.10gb": 7}],
    )
    placements: (
        Annotated[
            dict[ProfileText, Numbers],
            AfterValidator(_without_compute_instances),
            AfterValidator(_not_empty),
            _SOME,
        ]
        | None
    ) = Field(
        default=None,
        description="GPU instances by profile, as the memory slices at which they start.",
        examples=[{"3g.40gb": [4], "1g.10gb": [0, 1]}],
    )

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        for keys in (_SELECTIONS, _GEOMETRIES):
            given_keys = [key for key in keys if getattr(self, key) is not None]
            if len(given_keys) > 1:
                raise ValueError(f"{' and '.join(given_keys)} are mutually exclusive")
        if not any(getattr(self, key) is not None for key in _ANSWERS):
            raise ValueError(f"the GPUs' geometry is missing; set one of {', '.join(_ANSWERS)}")
        if self.mode == "disabled" and (self.devices or self.placements):
            raise ValueError("has mode: disabled and GPU instances; leave one of them out")
        return self


class Mig(Section):
    """How GPUs are cut into MIG instances. GPUs that no entry selects stay as they are."""

    model_config = ConfigDict(
        json_schema_extra=_never_together(given("gpus", {"minItems": 1}), given("mig_parted"))
    )

    gpus: tuple[MigGpus, ...] = Field(
        default=(), description="The MIG layout of GPUs; at most one entry per GPU."
    )
    mig_parted: (
        Annotated[MigConfigFile, WithJsonSchema({"type": ["string", "object"], "format": "mig-parted"})]
        | None
    ) = Field(
        default=None,
        description="A mig-parted configuration: the path of its file, relative to the profile's file (to "
        "the working directory if the profile is a mapping), or its contents.",
        examples=[
            {
                "version": "v1",
                "mig-configs": {
                    "small": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]
                },
            }
        ],
    )
    config: str | None = Field(
        default=None,
        description="The config of mig_parted to use. Unset: the only one in it.",
        examples=["all-balanced"],
    )
    managed_by: Literal["numaforge", "gpu-operator", "dra-driver"] = Field(
        default="numaforge",
        description="What creates the GPU instances. gpu-operator: its MIG manager gets the same geometry. "
        "dra-driver: it creates them on demand for claims (DynamicMIG), and numaforge sets only the mode.",
        examples=["gpu-operator"],
    )
    strategy: Literal["mixed", "single", "none"] = Field(
        default="mixed",
        description="The device plugin's migStrategy, which decides the names of the resources that the "
        "node advertises.",
        examples=["single"],
    )
    label: bool = Field(
        default=False,
        description="Whether to label the node mig-enabled or mig-disabled, for jobs that need whole GPUs.",
        examples=[True],
        strict=True,
    )
    in_use: Literal["refuse", "drain"] = Field(
        default="refuse",
        description="What to do if GPU instances that must be removed are in use: refuse the plan, or apply "
        "it after the drain.",
        examples=["drain"],
    )

    may_stop: tuple[UnitName, ...] = Field(
        default=(),
        description="Units that may be stopped for a change; they are started again after it. Units that "
        "hold a GPU when the node is read need not be listed; for any other holder the node is read again.",
        examples=[["nvidia-dcgm.service"]],
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.gpus and self.mig_parted is not None:
            raise ValueError("gpus and mig_parted are mutually exclusive; gpus: [] drops inherited ones")
        configs = self.mig_parted.mig_configs if self.mig_parted else {}
        if self.config is not None and self.config not in configs:
            hint = f"it has {', '.join(configs)}" if configs else "set mig_parted, which has the configs"
            raise ValueError(f"mig_parted has no config {self.config!r}; {hint}")
        if self.config is None and len(configs) > 1:
            raise ValueError(f"mig_parted has several configs; set config: one of {', '.join(configs)}")
        if self.managed_by == "dra-driver" and self._names_instances():
            raise ValueError(
                "managed_by is dra-driver, which creates GPU instances itself; set mode: enabled alone"
            )
        return self

    def _names_instances(self) -> bool:
        entries = (self.mig_parted.mig_configs if self.mig_parted else {}).values()
        return any(one.devices or one.placements for one in self.gpus) or any(
            one.mig_devices for config in entries for one in config
        )
