"""Section `device_plugin`: how NVIDIA's device plugin shares GPUs, and which configuration a node takes."""

import re
from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from numaforge.kubelet.admission.nvidia_resources import MOST_REPLICAS
from numaforge.lib.section import Section, given
from numaforge.lib.section_values import as_text, fits

PREFIX = "nvidia.com/"
_RESOURCE = re.compile(r"(nvidia\.com/)?(gpu|mig-[1-9][0-9]*g\.[0-9]+gb([.-][a-z][a-z.]*)?)")
_CONFIG = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def _resource(value: object) -> str:
    text = str(value)
    if not _RESOURCE.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a resource of the device plugin; write nvidia.com/gpu, or for example "
            "nvidia.com/mig-1g.10gb"
        )
    return text if text.startswith(PREFIX) else PREFIX + text


Resource = Annotated[str, BeforeValidator(_resource), as_text("extended resource", f"^{_RESOURCE.pattern}$")]
Replicas = Annotated[int, Field(ge=2, le=MOST_REPLICAS, strict=True)]
_NOT_A_LABEL = (
    "is not a label's value; write at most 63 letters, digits, '-', '_' and '.', for example inference"
)
ConfigName = Annotated[
    str, BeforeValidator(fits(_CONFIG, _NOT_A_LABEL)), as_text("label value", f"^{_CONFIG.pattern}$")
]


class DevicePlugin(Section):
    """How NVIDIA's device plugin shares GPUs and MIG devices. Unset: numaforge does not configure it."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "allOf": [given("time_slicing", {"minProperties": 1}), given("mps", {"minProperties": 1})]
            }
        }
    )

    time_slicing: dict[Resource, Replicas] = Field(
        default={},
        description="Replicas per device, by resource; the pods on a device take turns.",
        examples=[{"nvidia.com/gpu": 4}],
    )
    mps: dict[Resource, Annotated[Replicas, Field(le=48)]] = Field(
        default={},
        description="Replicas per device with MPS, by resource; the pods on a device run at once, each with "
        "its share of the memory. Full GPUs only.",
        examples=[{"nvidia.com/gpu": 8}],
    )
    rename_shared: bool = Field(
        default=False,
        description="Advertise shared devices under another name, such as nvidia.com/gpu.shared.",
        examples=[True],
    )
    one_per_pod: bool | None = Field(
        default=None,
        description="Refuse pods that request more than one shared device. Unset: the plugin's default, "
        "only with MPS.",
        examples=[True],
    )
    packed: bool = Field(
        default=False,
        description="Fill the replicas of one device before those of the next, instead of spreading pods "
        "over devices. From release 0.20 of the plugin on.",
        examples=[True],
    )
    config: ConfigName | None = Field(
        default=None,
        description="The plugin's configuration for this kind of node: a key of its ConfigMap, and the value "
        "of the label nvidia.com/device-plugin.config.",
        examples=["inference"],
    )

    @model_validator(mode="after")
    def _one_way_of_sharing(self) -> Self:
        if self.time_slicing and self.mps:
            raise ValueError("time_slicing and mps are mutually exclusive; leave one of them out")
        return self
