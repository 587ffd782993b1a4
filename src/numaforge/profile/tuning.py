"""Section `tuning`: kernel settings that take effect at once."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from numaforge.profile.kernel import Risk
from numaforge.profile.section import Removable, Section, exactly_one_of, given
from numaforge.profile.sysctls import danger
from numaforge.profile.values import Count, as_text

# "/" stands for a dot within a part, such as that of the interface eth0.1. No part begins with one: of dots
# alone it would lead out of the folder.
_SYSCTL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_*:@-][A-Za-z0-9_*/:@-]*)+")


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


def _each_once(sets: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(sets)) < len(sets):
        raise ValueError("names a set twice; name each once")
    return sets


def _switches(value: object) -> object:
    return {"enabled": value} if isinstance(value, str) else value


# YAML 1.1 reads an unquoted `off` as false.
Swap = Annotated[
    Literal["off", "keep"], BeforeValidator(_swap), WithJsonSchema({"enum": ["off", "keep", False]})
]
Enabled = Literal["always", "madvise", "never"]
SysctlName = Annotated[str, BeforeValidator(_sysctl_name), as_text("sysctl name", f"^{_SYSCTL.pattern}$")]
SysctlText = Annotated[str, BeforeValidator(_sysctl_text), as_text("sysctl value", or_a=("integer",))]


SysctlSet = Literal["training", "inference", "fabric"]


class CpuIdle(Section):
    """How deep idle CPUs may sleep, said in one of two ways."""

    model_config = ConfigDict(json_schema_extra=exactly_one_of("max_latency_us", "deepest"))

    max_latency_us: Count | None = Field(
        default=None,
        description="No state that takes longer than this to wake from, in microseconds.",
        examples=[20],
    )
    deepest: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="No state that takes longer to wake from than this one, by the kernel's name for it.",
        examples=["C1E"],
    )

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        if (self.max_latency_us is None) == (self.deepest is None):
            raise ValueError("say exactly one of max_latency_us, deepest")
        return self


class Khugepaged(Section):
    """The kernel's thread that joins small pages to huge ones."""

    defrag: bool | None = Field(
        default=None, description="Whether it may make room for huge pages.", examples=[False]
    )
    pages_to_scan: Annotated[int, Field(ge=1, strict=True)] | None = Field(
        default=None, description="Pages that it looks at in one pass.", examples=[4096]
    )
    scan_sleep_millisecs: Count | None = Field(
        default=None, description="How long it sleeps between passes, in milliseconds.", examples=[60000]
    )


class TransparentHugepages(Section):
    """The switches below /sys/kernel/mm/transparent_hugepage."""

    enabled: Enabled | None = Field(
        default=None, description="When the kernel uses huge pages by itself.", examples=["madvise"]
    )
    defrag: Literal["always", "defer", "defer+madvise", "madvise", "never"] | None = Field(
        default=None, description="When it stops to make room for them.", examples=["defer+madvise"]
    )
    shmem_enabled: Literal["always", "within_size", "advise", "never", "deny", "force"] | None = Field(
        default=None, description="When shared memory and tmpfs get huge pages.", examples=["advise"]
    )
    khugepaged: Khugepaged = Field(
        default=Khugepaged(), description="The kernel's thread that makes huge pages."
    )


class Tuning(Removable):
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
    cpu_idle: CpuIdle | None = Field(
        default=None, description="How deep idle CPUs may sleep.", examples=[{"max_latency_us": 20}]
    )
    turbo: bool | None = Field(
        default=None, description="Frequencies above the nominal one, on every CPU.", examples=[True]
    )
    ksm: bool | None = Field(
        default=None,
        description="Whether the kernel merges equal pages. false stops it; what is merged stays merged.",
        examples=[False],
    )
    sysctl_sets: Annotated[tuple[SysctlSet, ...], AfterValidator(_each_once)] = Field(
        default=(),
        description="Sets of kernel parameters by purpose; host-settings.md has their tables. What `sysctls` "
        "says wins over them.",
        examples=[["training", "fabric"]],
    )
    sysctls: dict[SysctlName, SysctlText] = Field(
        default_factory=dict, description="Kernel parameters by dotted name.", examples=[{"vm.swappiness": 1}]
    )
    unsafe: dict[SysctlName, Risk] = Field(
        default_factory=dict,
        description="Those of `sysctls` that may cost the node its network or its pods, each with what it "
        "may cost. The plan repeats it.",
        examples=[{"net.ipv6.conf.all.disable_ipv6": "nothing here speaks IPv6"}],
    )
    transparent_hugepages: Annotated[
        TransparentHugepages | None,
        BeforeValidator(_switches, json_schema_input_type=Enabled | TransparentHugepages | None),
    ] = Field(
        default=None,
        description="The switches, or a text for `enabled` alone.",
        examples=["madvise", {"enabled": "madvise", "defrag": "defer+madvise"}],
    )
    swap: Swap | None = Field(
        default=None, description="off turns all swap off, now and at every boot.", examples=["off"]
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

    @model_validator(mode="after")
    def _risks_are_known(self) -> Self:
        for name, value in self.sysctls.items():
            found = danger(name, value)
            if found and found.never:
                raise ValueError(f"sysctls {name}: {value} is not for a profile: {found.why}; leave it out")
            if found and name not in self.unsafe:
                raise ValueError(
                    f"sysctls {name}: {value} is dangerous: {found.why}; leave it out, or add "
                    f'what it may cost to tuning.unsafe: "{name}": "the risk, in your words"'
                )
        for name in self.unsafe:
            if name not in self.sysctls:
                raise ValueError(f"unsafe {name}: sysctls does not set it; leave it out")
        return self
