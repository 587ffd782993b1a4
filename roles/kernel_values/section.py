"""Section `tuning`: kernel settings that take effect at once."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from numaforge.lib.section import Removable, Section, each_once, exactly_one_of, given, off_is_no_boolean
from numaforge.lib.section_values import Count, as_text, fits
from numaforge.machine.knobs import KNOBS
from numaforge.roles.kernel_cmdline.section import Risk
from numaforge.roles.kernel_values.dangers import danger
from numaforge.roles.kernel_values.keys import sysctl_knobs, with_knobs

# "/" stands for a dot within a part, such as that of the interface eth0.1. No part begins with one: of dots
# alone it would lead out of the folder.
_SYSCTL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_*:@-][A-Za-z0-9_*/:@-]*)+")


def _sysctl_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(
            f'{value!r} is not a sysctl\'s value; write a number or a text such as "4096 87380 16777216"'
        )
    return " ".join(str(value).split())


def _switches(value: object) -> object:
    return {"enabled": value} if isinstance(value, str) else value


# YAML 1.1 reads an unquoted `off` as false.
Swap = Annotated[
    Literal["off", "keep"],
    BeforeValidator(off_is_no_boolean),
    WithJsonSchema({"enum": ["off", "keep", False]}),
]
Enabled = Literal["always", "madvise", "never"]  # of the knob, for a text alone
SysctlName = Annotated[
    str,
    BeforeValidator(fits(_SYSCTL, "is not a sysctl; write its dotted name, for example vm.swappiness")),
    as_text("sysctl name", f"^{_SYSCTL.pattern}$"),
]
SysctlText = Annotated[str, BeforeValidator(_sysctl_text), as_text("sysctl value", or_a=("integer",))]


SysctlSet = Literal["training", "inference", "fabric"]


class CpuIdle(Section):
    """How deeply idle CPUs may sleep, by exactly one of the two keys."""

    model_config = ConfigDict(json_schema_extra=exactly_one_of("max_latency_us", "deepest"))

    max_latency_us: Count | None = Field(
        default=None,
        description="The longest permitted wake-up latency of a sleep state, in microseconds.",
        examples=[20],
    )
    deepest: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="The slowest permitted sleep state, by the kernel's name: no state with a longer "
        "wake-up latency is used.",
        examples=["C1E"],
    )

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        if (self.max_latency_us is None) == (self.deepest is None):
            raise ValueError("set exactly one of max_latency_us, deepest")
        return self


@with_knobs("transparent_hugepages.khugepaged.")
class Khugepaged(Section):
    """The kernel thread that merges small pages into huge ones."""


@with_knobs("transparent_hugepages.")
class TransparentHugepages(Section):
    """The settings below /sys/kernel/mm/transparent_hugepage."""

    khugepaged: Khugepaged = Field(
        default=Khugepaged.unset(), description="The kernel thread that makes huge pages."
    )


_SYSCTL_KNOBS = {knob.sysctl: knob.key for knob in KNOBS if knob.sysctl}


@with_knobs()
class Tuning(Removable):
    """Kernel settings. Unset keys leave the host as it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "anyOf": [
                    {"allOf": [given(key), given("sysctls", {"required": [name]})]}
                    for name, key in _SYSCTL_KNOBS.items()
                ]
            }
        }
    )

    governor: (
        Literal["performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"] | None
    ) = Field(default=None, description="The cpufreq governor of every CPU.", examples=["performance"])
    energy_preference: (
        Literal["default", "performance", "balance_performance", "balance_power", "power"] | None
    ) = Field(
        default=None,
        description="The energy_performance_preference of every CPU.",
        examples=["balance_performance"],
    )
    cpu_idle: CpuIdle | None = Field(
        default=None, description="How deeply idle CPUs may sleep.", examples=[{"max_latency_us": 20}]
    )
    sysctl_sets: Annotated[tuple[SysctlSet, ...], AfterValidator(each_once)] = Field(
        default=(),
        description="Sets of kernel parameters by purpose, listed in host-settings.md. `sysctls` overrides "
        "them.",
        examples=[["training", "fabric"]],
    )
    sysctls: dict[SysctlName, SysctlText] = Field(
        default={}, description="Kernel parameters by dotted name.", examples=[{"vm.swappiness": 1}]
    )
    unsafe: dict[SysctlName, Risk] = Field(
        default={},
        description="Parameters in `sysctls` that may cost the node its network or its pods, each with its "
        "risk, which the plan repeats.",
        examples=[{"net.ipv6.conf.all.disable_ipv6": "nothing here speaks IPv6"}],
    )
    transparent_hugepages: Annotated[
        TransparentHugepages | None,
        BeforeValidator(_switches, json_schema_input_type=Enabled | TransparentHugepages | None),
    ] = Field(
        default=None,
        description="A mapping of settings, or a text that sets only `enabled`.",
        examples=["madvise", {"enabled": "madvise", "defrag": "defer+madvise"}],
    )
    swap: Swap | None = Field(
        default=None, description="off turns all swap off, now and at every boot.", examples=["off"]
    )

    @model_validator(mode="after")
    def _each_sysctl_is_said_once(self) -> Self:
        for name, (knob, _) in sysctl_knobs(self).items():
            if name in self.sysctls:
                raise ValueError(f"sets {knob.key} and sysctls {name}; keep one of them")
        return self

    @model_validator(mode="after")
    def _risks_are_known(self) -> Self:
        for name, value in self.sysctls.items():
            known_danger = danger(name, value)
            if known_danger and known_danger.never:
                raise ValueError(
                    f"sysctls {name}: {value} is not for a profile: {known_danger.why}; leave it out"
                )
            if known_danger and name not in self.unsafe:
                raise ValueError(
                    f"sysctls {name}: {value} is dangerous: {known_danger.why}; leave it out, or add "
                    f'what it may cost to tuning.unsafe: "{name}": "the risk, in your words"'
                )
        for name in self.unsafe:
            if name not in self.sysctls:
                raise ValueError(f"unsafe {name}: sysctls does not set it; leave it out")
        return self
