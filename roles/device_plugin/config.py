"""The configuration of NVIDIA's device plugin, read strictly: each key that it knows, and nothing else.

Source: k8s-device-plugin, api/config/v1, and validateFlags of cmd/nvidia-device-plugin. The plugin itself
drops unknown keys silently. What it rejects is rejected here with its own message.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from numaforge.kubelet.admission.inventory import NOT_SHARED, Shared
from numaforge.kubelet.admission.nvidia_resources import PREFIX, SHARED
from numaforge.lib.errors import PlanError
from numaforge.lib.section import Section, validated
from numaforge.lib.strict_yaml import read_last_keys

MIG_STRATEGIES = ("none", "single", "mixed")
LONGEST_NAME = 63
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DEVICE = re.compile(r"\d+(:\d+)?|(MIG-)?GPU-[0-9a-f-]{36}(/\d+/\d+)?|MIG-[0-9a-f-]{36}", re.IGNORECASE)


def resource_name(text: object) -> str:
    """Return a resource's name with the plugin's prefix; raises ValueError with the plugin's message."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not a resource's name; write for example nvidia.com/gpu")
    name = text if text.startswith(PREFIX) else PREFIX + text
    if len(name) > LONGEST_NAME:
        raise ValueError(f"fully-qualified resource name must be {LONGEST_NAME} characters or less: {name}")
    if not _SUBDOMAIN.fullmatch(name.removeprefix(PREFIX)):
        raise ValueError(
            f"incorrect format for resource name '{name}': after {PREFIX} write small letters, digits, "
            "'-' and '.', for example nvidia.com/mig-1g.10gb"
        )
    return name


def _one_of(complaint: str, *accepted: str) -> BeforeValidator:
    """Return a check for one of the accepted texts; `complaint` begins the plugin's message about others."""

    def check(value: object) -> str:
        if value not in accepted:
            raise ValueError(f"{complaint}{value}; write {' or '.join(accepted)}")
        return str(value)

    return BeforeValidator(check)


def _strategies(value: object) -> tuple[str, ...]:
    accepted = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
    values = value if isinstance(value, list) else [value]
    for one in values:
        if one not in accepted:
            raise ValueError(
                f"invalid --device-list-strategy option: invalid strategy: {one}; write {', '.join(accepted)}"
            )
    return tuple(values)


def _duration(value: object) -> object:
    if type(value) is int or (isinstance(value, str) and re.fullmatch(r"([0-9.]+(ns|us|ms|s|m|h))+", value)):
        return value
    raise ValueError(f"{value!r} is not a duration; write for example 60s")


def _channels(value: object) -> tuple[int, ...]:
    if value not in ([], [0]):
        shown = f"[{' '.join(map(str, value))}]" if isinstance(value, list) else value
        raise ValueError(
            f"invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found {shown}"
        )
    return tuple(value)


def _replicas(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number; write 2 or more")
    if value < 2:
        raise ValueError(f"number of replicas must be >= 2; found {value}")
    if value >= 2**63:
        raise ValueError("cannot unmarshal a number of more than 64 bits into Go value of type int")
    return value


def _devices(value: object) -> object:
    if isinstance(value, str) and value != "all":
        raise ValueError(f"devices set as '{value}' but the only valid string input is 'all'")
    if type(value) is int and value <= 0:
        raise ValueError(f"devices set as '{value}' but a count of devices must be > 0")
    for one in value if isinstance(value, list) else ():
        if not _DEVICE.fullmatch(str(one)):
            raise ValueError(f"unsupported type for device in devices list: {one}; write an index or a UUID")
    if isinstance(value, str | list) or type(value) is int:
        return value
    raise ValueError(f"unrecognized type for devices spec: {value}")


ResourceName = Annotated[str, BeforeValidator(resource_name)]
Switch = Annotated[bool, Field(strict=True)]


class _CamelCase(Section):
    """Settings under the names that the plugin's Go types give them."""

    model_config = ConfigDict(alias_generator=to_camel)
    needs: ClassVar[Mapping[str, str]] = {}
    """The plugin's message where a key is missing, in its order."""

    @model_validator(mode="before")
    @classmethod
    def _has_what_it_needs(cls, value: Any) -> Any:
        for key, complaint in cls.needs.items() if isinstance(value, Mapping) else ():
            if value.get(key) in (None, []):
                raise ValueError(complaint)
        return value


class _AnyCase(_CamelCase):
    """Settings whose names Go's JSON reads in any case, where no field has exactly that name."""

    @model_validator(mode="before")
    @classmethod
    def _in_their_case(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        names = {str(field.alias or to_camel(name)) for name, field in cls.model_fields.items()}
        in_lower = {name.lower(): name for name in names}
        return {in_lower.get(str(key).lower(), key) if key not in names else key: value[key] for key in value}


class PluginFlags(_AnyCase):
    """Flags of the device plugin alone."""

    pass_device_specs: Switch | None = None
    device_list_strategy: Annotated[tuple[str, ...] | None, BeforeValidator(_strategies)] = None
    device_id_strategy: Annotated[
        str | None, _one_of("invalid --device-id-strategy option: ", "uuid", "index")
    ] = Field(default=None, alias="deviceIDStrategy")
    cdi_annotation_prefix: str | None = None
    nvidia_ctk_path: str | None = Field(default=None, alias="nvidiaCTKPath")
    container_driver_root: str | None = None
    shared_devices_allocation_policy: Annotated[
        str | None, _one_of("invalid --shared-devices-allocation-policy option: ", "distributed", "packed")
    ] = None


class FeatureFlags(_AnyCase):
    """Flags of GPU feature discovery alone, which may read the same file."""

    oneshot: Switch | None = None
    no_timestamp: Switch | None = None
    sleep_interval: Annotated[int | str | None, BeforeValidator(_duration)] = None
    output_file: str | None = None
    machine_type_file: str | None = None


class CommonFlags(_AnyCase):
    """Flags of both; a flag or an environment variable of the container takes precedence."""

    mig_strategy: Annotated[str, _one_of("unknown MIG strategy: ", *MIG_STRATEGIES)] = "none"
    fail_on_init_error: Switch | None = None
    mps_root: str | None = None
    nvidia_driver_root: str | None = None
    nvidia_dev_root: str | None = None
    gdrcopy_enabled: Switch | None = None
    gds_enabled: Switch | None = None
    mofed_enabled: Switch | None = None
    use_node_feature_api: Switch | None = Field(default=None, alias="useNodeFeatureAPI")
    device_discovery_strategy: Annotated[
        str | None, _one_of("invalid --device-discovery-strategy option ", "auto", "nvml", "tegra")
    ] = None
    plugin: PluginFlags = PluginFlags.unset()
    gfd: FeatureFlags = FeatureFlags.unset()


class SharedResource(_CamelCase):
    """A resource each of whose devices is advertised `replicas` times."""

    needs: ClassVar = {"name": "no resource name specified", "replicas": "no replicas specified"}

    name: ResourceName
    replicas: Annotated[int, BeforeValidator(_replicas)]
    rename: ResourceName | None = None
    devices: Annotated[Any, BeforeValidator(_devices)] = "all"


class SharedResources(_CamelCase):
    """One way of sharing, and the resources that are shared so."""

    needs: ClassVar = {"resources": "no resources specified"}

    resources: tuple[SharedResource, ...]
    rename_by_default: Switch = False
    fail_requests_greater_than_one: Switch | None = None

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        names = [one.name for one in self.resources]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name} is shared twice; write each resource once")
        return self

    def advertised_as(self, name: str) -> str:
        """Return the name under which the replicas of a resource are advertised."""
        return f"{name}{SHARED}" if self.rename_by_default else name


class Sharing(_AnyCase):
    """How devices are shared; with both, the plugin takes `mps` and never looks at `time_slicing`."""

    time_slicing: SharedResources | None = None
    mps: SharedResources | None = None

    @model_validator(mode="before")
    @classmethod
    def _said_or_left_out(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.get("timeSlicing", True) in (None, []):
            raise ValueError("no resources specified")
        return value

    @property
    def taken(self) -> Shared:
        """The sharing in effect; with MPS the plugin always rejects requests for several replicas."""
        active = self.mps or self.time_slicing
        if active is None:
            return NOT_SHARED
        return Shared(
            {one.name: one.replicas for one in active.resources},
            active.rename_by_default,
            self.mps is not None or bool(active.fail_requests_greater_than_one),
        )


class Imex(_AnyCase):
    """IMEX channels that containers get."""

    channel_ids: Annotated[tuple[int, ...], BeforeValidator(_channels)] = Field(
        default=(), alias="channelIDs"
    )
    required: Switch = False


class NamedPattern(_CamelCase):
    """A resource's name for GPUs or MIG profiles of a pattern; the plugin reads it, and ignores it."""

    needs: ClassVar = {key: f"resources must have a '{key}' field set" for key in ("pattern", "name")}

    pattern: str
    name: ResourceName


class Resources(_AnyCase):
    """Names of resources by pattern."""

    gpus: tuple[NamedPattern, ...] = ()
    mig: tuple[NamedPattern, ...] = ()


class DevicePluginConfig(_AnyCase):
    """A file of the device plugin."""

    version: Annotated[str, _one_of("unknown version: ", "v1")] = "v1"
    flags: CommonFlags = CommonFlags.unset()
    resources: Resources = Resources.unset()
    sharing: Sharing = Sharing.unset()
    imex: Imex = Imex.unset()


def parse_device_plugin(text: str, file: str) -> DevicePluginConfig:
    """Return a configuration of the device plugin, by the last of repeated keys; messages name it `file`."""
    document, _ = read_last_keys(text, file, PlanError)
    if not isinstance(document, dict):
        raise PlanError(
            "not a configuration of the device plugin", where=file, remedy="begin with version: v1"
        )
    if document.get("kind") == "ConfigMap":
        raise PlanError("is a ConfigMap", where=file, remedy="give one of the texts in its data")
    return validated(DevicePluginConfig, document, file, error=PlanError)
