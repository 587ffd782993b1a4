"""Section `kernel`: the kernel command line, which takes effect at the next boot."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from numaforge.lib.cpulist import CPULIST_PATTERN, parse_cpulist
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.section import Removable, off_is_no_boolean
from numaforge.lib.section_values import Count, as_text
from numaforge.roles.kernel_cmdline.parameters import (
    REPEATED,
    accepted_pattern,
    doubt,
    elsewhere,
    parameter_name,
    refusal,
    refused_pattern,
    with_one_pci,
)

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
        raise ValueError(f"{parameter!r} is not accepted here; set it in the section {section}")
    if why := doubt(parameter):
        raise ValueError(
            f"{parameter!r} {why}; leave it out, or write it in kernel.unsafe with what it may cost: "
            f'"{parameter}": "the risk, in your words"'
        )
    return parameter


def _risk(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(
            f"{value!r} is not a risk; write what may happen, for example: these nodes have no IPv6 addresses"
        )
    return " ".join(value.split())


def _one_value_each(given: tuple[str, ...]) -> tuple[str, ...]:
    parameters = tuple(with_one_pci(given))
    by_name: dict[str, str] = {}
    for parameter in parameters:
        name = parameter if parameter_name(parameter) in REPEATED else parameter_name(parameter)
        if name in by_name:
            raise ValueError(f"has {by_name[name]} and {parameter}; name each parameter once")
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
    str, BeforeValidator(_cpus), as_text("cpulist", f"^{ALLOCATABLE}$|{CPULIST_PATTERN}", or_a=("integer",))
]
# YAML 1.1 reads an unquoted `off` as false.
Iommu = Annotated[
    Literal["passthrough", "off", "keep"],
    BeforeValidator(off_is_no_boolean),
    WithJsonSchema({"enum": ["passthrough", "off", "keep", False]}),
]


class Kernel(Removable):
    """Settings that only a reboot changes. `maintenance.reboot` says whether numaforge may reboot the node.

    A setting with its own key is translated into the parameters for the machine's CPU.
    """

    cmdline: Annotated[tuple[Parameter, ...], AfterValidator(_one_value_each)] = Field(
        default=(),
        description="Parameters that the kernel command line must have, from [the "
        "list](#parameters-by-purpose); all others stay as they are.",
        examples=[["intel_iommu=on", "iommu=pt", "default_hugepagesz=1G"]],
    )
    unsafe: dict[AnyParameter, Risk] = Field(
        default={},
        description="Parameters that are not on the list, each with its risk, which the plan and every run "
        "repeat.",
        examples=[{"net.ifnames=0": "NICs are renamed: networkd matches them by MAC address here"}],
    )
    next_kernel: Literal["running", "any"] = Field(
        default="running",
        description="Which kernel a reboot by numaforge may start. running: only the running one; if the "
        "boot loader would start another, the reboot is refused. any: another one too, if it has the GPU "
        "and NIC drivers that are loaded now.",
        examples=["any"],
    )
    iommu: Iommu | None = Field(
        default=None,
        description="passthrough gives devices untranslated access to memory, which GPUDirect needs on bare "
        "metal; off disables the IOMMU.",
        examples=["passthrough"],
    )
    isolated_cpus: Cpus | None = Field(
        default=None,
        description="CPUs without load balancing by the scheduler: threads stay on the CPU where they "
        "start, even those of unpinned pods. `allocatable`: all CPUs except the reserved ones.",
        examples=["allocatable"],
    )
    nohz_full: Cpus | None = Field(
        default=None,
        description="CPUs whose tick stops while only one thread runs on them.",
        examples=["allocatable"],
    )
    rcu_nocbs: Cpus | None = Field(
        default=None, description="CPUs whose RCU callbacks run on other CPUs.", examples=["allocatable"]
    )
    page_size: Literal["4Ki", "16Ki", "64Ki"] | None = Field(
        default=None,
        description="The page size that the kernel must have; on Arm it depends on the kernel's package. A "
        "kernel with another page size is refused; numaforge does not install one.",
        examples=["64Ki"],
    )
    init_on_alloc: bool | None = Field(
        default=None,
        description="Whether the kernel zeroes every page that it allocates. false is faster, but faulty "
        "kernel code can then see a page's old contents.",
        examples=[False],
    )
    numa_balancing: bool | None = Field(
        default=None,
        description="NUMA balancing from the start of the kernel on; tuning.numa_balancing needs no reboot.",
        examples=[False],
    )
    skew_tick: bool | None = Field(
        default=None,
        description="Whether the ticks of the CPUs are staggered, so that they do not compete for a lock.",
        examples=[True],
    )
    max_cstate: Count | None = Field(
        default=None,
        description="The deepest sleep state that the kernel's driver may use, x86 only; tuning.cpu_idle "
        "needs no reboot.",
        examples=[1],
    )

    @model_validator(mode="after")
    def _each_parameter_once(self) -> Self:
        _one_value_each((*self.cmdline, *self.unsafe))
        return self
