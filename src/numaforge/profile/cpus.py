"""Section `cpus`: which CPUs workloads never get."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from numaforge.cpulist import CPULIST_PATTERN, format_cpulist, parse_cpulist
from numaforge.errors import NumaforgeError
from numaforge.profile.section import Section, exactly_one_of
from numaforge.profile.values import as_text


def _cpulist(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f'{value!r} is not a cpulist; write it in quotes, for example "0-1,64-65"')
    try:
        cpus = parse_cpulist(str(value))
    except NumaforgeError as error:
        raise ValueError(f"{error.message}; {error.remedy}") from error
    if not cpus:
        raise ValueError('the cpulist is empty; name the CPUs, for example "0-1,64-65", or leave the key out')
    return format_cpulist(cpus)


CpulistText = Annotated[
    str,
    BeforeValidator(_cpulist),
    as_text("cpulist", CPULIST_PATTERN, or_a=("integer",), minimum=0, minLength=1),
]
CoreCount = Annotated[int, Field(ge=1, strict=True)]


_WAYS = ("cores_per_numa_node", "cores_per_package", "cores", "cpulist")


class ReservedCpus(Section):
    """Which CPUs workloads never get: exactly one of the four ways to say it."""

    model_config = ConfigDict(json_schema_extra=exactly_one_of(*_WAYS))

    cores_per_numa_node: CoreCount | None = Field(
        default=None, description="Whole cores on every NUMA node that has CPUs.", examples=[1]
    )
    cores_per_package: CoreCount | None = Field(
        default=None, description="Whole cores in every package, spread over its NUMA nodes.", examples=[2]
    )
    cores: CoreCount | None = Field(
        default=None, description="Whole cores on the machine, spread over its NUMA nodes.", examples=[4]
    )
    cpulist: CpulistText | None = Field(
        default=None, description="Exactly these CPUs; they must be whole cores.", examples=["0-1,64-65"]
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = sorted(self.model_fields_set)
        if len(given) != 1 or getattr(self, given[0]) is None:
            said = "nothing" if not given else " and ".join(given)
            raise ValueError(f"says {said}; say exactly one of {', '.join(_WAYS)}")
        return self


class Cpus(Section):
    """CPUs for the operating system and Kubernetes' own daemons."""

    reserved: ReservedCpus | None = Field(
        default=None,
        description="Which CPUs are reserved. Unset: what the kubelet reserves now, else one core per NUMA "
        "node.",
        examples=[{"cores_per_numa_node": 1}],
    )
