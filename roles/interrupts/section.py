"""Section `interrupts`: which CPUs answer the devices."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from numaforge.sections.section import ProfileKey, Section, given, off_is_no_boolean

# YAML 1.1 reads an unquoted `off` as false.
ReservedOrOff = Annotated[
    Literal["reserved", "off", "keep"],
    BeforeValidator(off_is_no_boolean),
    WithJsonSchema({"enum": ["reserved", "off", "keep", False]}),
]
ReservedOrKeep = Literal["reserved", "keep"]
DeviceClass = Literal["nics", "nvmes", "gpus"]


class Interrupts(Section):
    """Which CPUs answer the devices. Whatever is unset, or `keep`, is left as the host has it."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": given("devices", {"const": "reserved"}),
            "then": given("irqbalance", {"enum": ["reserved", "off", False]}),
        }
    )

    irqbalance: ReservedOrOff | None = Field(
        default=None,
        description="reserved: irqbalance uses the reserved CPUs alone; off: it is stopped and stays so.",
        examples=["off"],
    )
    devices: ReservedOrKeep | None = Field(
        default=None,
        description="reserved: interrupts of devices go to the reserved CPUs of the device's NUMA node.",
        examples=["reserved"],
    )
    device_classes: tuple[DeviceClass, ...] = Field(
        default=("nics", "nvmes"), min_length=1, description="Which devices.", examples=[["nics", "gpus"]]
    )
    default_affinity: ReservedOrKeep | None = Field(
        default=None,
        description="reserved: interrupts that are requested later start on the reserved CPUs.",
        examples=["reserved"],
    )
    rps: ReservedOrOff | None = Field(
        default=None,
        description="Which CPUs take received packets of the host's NICs beside the one that was "
        "interrupted: reserved, or none (off).",
        examples=["off"],
    )
    workqueues: ReservedOrKeep | None = Field(
        default=None,
        description="reserved: the kernel's unbound workqueues run on the reserved CPUs.",
        examples=["reserved"],
    )

    @model_validator(mode="after")
    def _irqbalance_leaves_devices_alone(self) -> Self:
        if self.devices == "reserved" and self.irqbalance not in ("reserved", "off"):
            raise ValueError(
                "says devices: reserved and leaves irqbalance free to move them elsewhere; say irqbalance: "
                "off, or irqbalance: reserved (a host without irqbalance accepts both)"
            )
        return self


KEY = ProfileKey(
    "interrupts",
    Interrupts,
    Interrupts.unset(),
    "Which CPUs answer the devices: interrupts and received packets.",
)
