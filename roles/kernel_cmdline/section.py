"""Section `kernel`: the kernel command line, which takes effect at the next boot."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from numaforge.cpulist import CPULIST_PATTERN, parse_cpulist
from numaforge.errors import NumaforgeError
from numaforge.roles.kernel_cmdline.parameters import (
    accepted_pattern,
    doubt,
    elsewhere,
    parameter_name,
    refusal,
    refused_pattern,
)
from numaforge.sections.section import ProfileKey, Removable, off_is_no_boolean
from numaforge.sections.values import Count, as_text

# What the kernel, GRUB's own script language and grubby all take literally. A space ends a parameter, GRUB
# ends the line at ";" and expands "$".
_PARAMETER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:/@%+=~!-]*)?")


def _parameter(value: object) -> str:
    if not isinstance(value, str) or not _PARAMETER.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a kernel parameter; write one NAME or NAME=VALUE per entry, without spaces, "
            'quotes, "$" or ";", for example intel_iommu=on'
        )
    if reason := refusal(value):
        raise ValueError(f"{value!r} is not for a profile: {reason}; leave it out")
    return value


def _harmless(value: object) -> str:
    parameter = _parameter(value)
    if section := elsewhere(parameter):
        raise ValueError(f"{parameter!r} is not said here; say it in the section {section}")
    if why := doubt(parameter):
        raise ValueError(
            f"{parameter!r} {why}; leave it out, or write it in kernel.unsafe with what it may cost: "
            f'"{parameter}": "the risk, in your words"'
        )
    return parameter


def _risk(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(
            f"{value!r} is no risk; write what may happen, for example: these nodes have no IPv6 addresses"
        )
    return " ".join(value.split())


def _one_value_each(parameters: tuple[str, ...]) -> tuple[str, ...]:
    by_name: dict[str, str] = {}
    for parameter in parameters:
        name = parameter_name(parameter)
        if name in by_name:
            raise ValueError(f"says {by_name[name]} and {parameter}; say each parameter once")
        by_name[name] = parameter
    return parameters


AnyParameter = Annotated[
    str,
    BeforeValidator(_parameter),
    as_text("kernel parameter", f"^{_PARAMETER.pattern}$", none_of=refused_pattern()),
]
Parameter = Annotated[
    str,
    BeforeValidator(_harmless),
    as_text("known kernel parameter", accepted_pattern(), none_of=refused_pattern()),
]
Risk = Annotated[str, BeforeValidator(_risk), as_text("risk", r"\S")]


ALLOCATABLE = "allocatable"


def _cpus(value: object) -> str:
    text = str(value)
    if text == ALLOCATABLE:
        return text
    try:
        cpus = parse_cpulist(text)
    except NumaforgeError as error:
        raise ValueError(f"{error.message}; {error.remedy}, or {ALLOCATABLE}") from error
    if not cpus:
        raise ValueError(f'names no CPU; write {ALLOCATABLE}, or a cpulist such as "2-63"')
    return text


Cpus = Annotated[
    str,
    BeforeValidator(_cpus),
    as_text("cpulist", f"^{ALLOCATABLE}$|{CPULIST_PATTERN}", or_a=("integer",)),
]
# YAML 1.1 reads an unquoted `off` as false.
Iommu = Annotated[
    Literal["passthrough", "off", "keep"],
    BeforeValidator(off_is_no_boolean),
    WithJsonSchema({"enum": ["passthrough", "off", "keep", False]}),
]


class Kernel(Removable):
    """What only a boot changes. `maintenance.reboot` says whether numaforge may boot the node for it.

    What has a name of its own here is said in the words of the machine's CPU.
    """

    cmdline: Annotated[tuple[Parameter, ...], AfterValidator(_one_value_each)] = Field(
        default=(),
        description="Parameters that the kernel command line has to have, from [the list]"
        "(#parameters-by-purpose); all others stay as they are.",
        examples=[["intel_iommu=on", "iommu=pt", "default_hugepagesz=1G"]],
    )
    unsafe: dict[AnyParameter, Risk] = Field(
        default_factory=dict,
        description="Parameters that are not on the list, each with what it may cost. The plan and every run "
        "repeat it.",
        examples=[{"net.ifnames=0": "NICs are renamed: networkd matches them by MAC address here"}],
    )
    next_kernel: Literal["running", "any"] = Field(
        default="running",
        description="Which kernel a reboot for numaforge may start. running: the one that runs; where the "
        "boot loader would start another, the reboot is refused. any: that one too, where it has the drivers "
        "of the GPUs and NICs that are loaded now.",
        examples=["any"],
    )
    iommu: Iommu | None = Field(
        default=None,
        description="passthrough lets devices reach memory untranslated, which GPUDirect needs on bare "
        "metal; off switches the IOMMU off.",
        examples=["passthrough"],
    )
    isolated_cpus: Cpus | None = Field(
        default=None,
        description="CPUs that the scheduler does not balance: threads stay where they are started, those of "
        "pods that are not pinned too. `allocatable` is all but the reserved ones.",
        examples=["allocatable"],
    )
    nohz_full: Cpus | None = Field(
        default=None,
        description="CPUs without a tick while one thread runs on them.",
        examples=["allocatable"],
    )
    rcu_nocbs: Cpus | None = Field(
        default=None,
        description="CPUs whose RCU callbacks run on others.",
        examples=["allocatable"],
    )
    page_size: Literal["4Ki", "16Ki", "64Ki"] | None = Field(
        default=None,
        description="The page size that the kernel has to have, which on Arm is a matter of its package: a "
        "kernel with another one is refused, and none is installed.",
        examples=["64Ki"],
    )
    init_on_alloc: bool | None = Field(
        default=None,
        description="Whether the kernel clears every page that it hands out. false is faster, and pages show "
        "what they held to faulty code in the kernel.",
        examples=[False],
    )
    numa_balancing: bool | None = Field(
        default=None,
        description="NUMA balancing from the first moment on; tuning.numa_balancing needs no boot.",
        examples=[False],
    )
    skew_tick: bool | None = Field(
        default=None,
        description="Whether the ticks of CPUs are spread, so that no lock is wanted by all at once.",
        examples=[True],
    )
    max_cstate: Count | None = Field(
        default=None,
        description="The deepest sleep state that the kernel's driver uses at all, x86 only; "
        "tuning.cpu_idle needs no boot.",
        examples=[1],
    )

    @model_validator(mode="after")
    def _each_parameter_once(self) -> Self:
        _one_value_each((*self.cmdline, *self.unsafe))
        return self


KEY = ProfileKey("kernel", Kernel, Kernel.unset(), "Kernel settings that only a boot changes.")
