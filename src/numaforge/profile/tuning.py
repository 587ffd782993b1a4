"""Section `tuning`: kernel settings that take effect at once."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from numaforge.profile.section import Section, given
from numaforge.profile.values import as_text

_SYSCTL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_*/:@-]+)+")


def _sysctl_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(
            f'{value!r} is not a sysctl\'s value; write a number or a text such as "4096 87380 16777216"'
        )
    return " ".join(str(value).split())


def _sysctl_name(value: object) -> str:
    text = str(value)
    if not _SYSCTL.fullmatch(text):
        raise ValueError(f"{text!r} is not a sysctl; write its dotted name, for example vm.swappiness")
    return text


def _swap(value: object) -> object:
    return "off" if value is False else value


def _switches(value: object) -> object:
    return {"enabled": value} if isinstance(value, str) else value


# YAML 1.1 reads an unquoted `off` as false.
Swap = Annotated[
    Literal["off", "keep"], BeforeValidator(_swap), WithJsonSchema({"enum": ["off", "keep", False]})
]
Enabled = Literal["always", "madvise", "never"]
SysctlName = Annotated[str, BeforeValidator(_sysctl_name), as_text("sysctl name", f"^{_SYSCTL.pattern}$")]
SysctlText = Annotated[str, BeforeValidator(_sysctl_text), as_text("sysctl value", or_a=("integer",))]


class TransparentHugepages(Section):
    """The two switches below /sys/kernel/mm/transparent_hugepage."""

    enabled: Enabled | None = Field(
        default=None, description="When the kernel uses huge pages by itself.", examples=["madvise"]
    )
    defrag: Literal["always", "defer", "defer+madvise", "madvise", "never"] | None = Field(
        default=None, description="When it stops to make room for them.", examples=["defer+madvise"]
    )


class Tuning(Section):
    """Kernel settings. Whatever is unset is left as the host has it."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "allOf": [given("numa_balancing"), given("sysctls", {"required": ["kernel.numa_balancing"]})]
            }
        }
    )

    governor: (
        Literal["performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"] | None
    ) = Field(default=None, description="Every CPU's cpufreq governor.", examples=["performance"])
    energy_preference: (
        Literal["default", "performance", "balance_performance", "balance_power", "power"] | None
    ) = Field(
        default=None,
        description="Every CPU's energy_performance_preference.",
        examples=["balance_performance"],
    )
    sysctls: dict[SysctlName, SysctlText] = Field(
        default_factory=dict, description="Kernel parameters by dotted name.", examples=[{"vm.swappiness": 1}]
    )
    transparent_hugepages: Annotated[
        TransparentHugepages | None,
        BeforeValidator(_switches, json_schema_input_type=Enabled | TransparentHugepages | None),
    ] = Field(
        default=None,
        description="Both switches, or a text for `enabled` alone.",
        examples=["madvise", {"enabled": "madvise", "defrag": "defer+madvise"}],
    )
    swap: Swap | None = Field(
        default=None, description="off takes all swap away, now and at every boot.", examples=["off"]
    )
    numa_balancing: bool | None = Field(
        default=None,
        description="kernel.numa_balancing: whether the kernel moves pages after threads.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _numa_balancing_is_said_once(self) -> Self:
        if self.numa_balancing is not None and "kernel.numa_balancing" in self.sysctls:
            raise ValueError("says numa_balancing and sysctls kernel.numa_balancing; say one of them")
        return self
