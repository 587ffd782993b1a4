"""Section `interrupts`: which CPUs answer the devices."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from numaforge.lib.section import Section, given, off_is_no_boolean

# YAML 1.1 reads an unquoted `off` as false.
ReservedOrOff = Annotated[
    Literal["reserved", "off", "keep"],
    BeforeValidator(off_is_no_boolean),
    WithJsonSchema({"enum": ["reserved", "off", "keep", False]}),
]
ReservedOrKeep = Literal["reserved", "keep"]
DeviceClass = Literal["nics", "nvmes", "gpus"]


class Interrupts(Section):
    """Which CPUs handle the devices. Unset keys, and `keep`, leave the host as it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": given("devices", {"const": "reserved"}),
            "then": given("irqbalance", {"enum": ["reserved", "off", False]}),
        }
    )

    irqbalance: ReservedOrOff | None = Field(
        default=None,
        description="reserved: irqbalance uses only the reserved CPUs; off: it is stopped and stays stopped.",
        examples=["off"],
    )
    devices: ReservedOrKeep | None = Field(
        default=None,
        description="reserved: a device's interrupts go to the reserved CPUs of its NUMA node.",
        examples=["reserved"],
    )
    device_classes: tuple[DeviceClass, ...] = Field(
        default=("nics", "nvmes"),
        min_length=1,
        description="The devices that `devices` applies to.",
        examples=[["nics", "gpus"]],
    )
    default_affinity: ReservedOrKeep | None = Field(
        default=None,
        description="reserved: interrupts requested later start on the reserved CPUs.",
        examples=["reserved"],
    )
    rps: ReservedOrOff | None = Field(
        default=None,
        description="Which CPUs process received packets of the host's NICs besides the interrupted CPU: "
        "reserved, or none (off).",
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
                "says devices: reserved and leaves irqbalance free to move them elsewhere; set irqbalance: "
                "off, or irqbalance: reserved (a host without irqbalance accepts both)"
            )
        return self
