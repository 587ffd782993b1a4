"""Section `cpus`: which CPUs workloads never get."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from numaforge.lib.cpulist import CPULIST_PATTERN, format_cpulist, parse_cpulist
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.section import Section, exactly_one_of, given, off_is_no_boolean
from numaforge.lib.section_values import as_text


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
# YAML 1.1 reads an unquoted `off` as false.
Off = Annotated[Literal["off"], BeforeValidator(off_is_no_boolean), WithJsonSchema({"enum": ["off", False]})]
CoreCount = Annotated[int, Field(ge=1, strict=True)]


_WAYS = ("cores_per_numa_node", "cores_per_package", "cores", "cpulist")
_FIXED = ("cores_per_numa_node", "cpulist")  # these say the NUMA nodes, too


class ReservedCpus(Section):
    """CPUs that workloads never get, by exactly one of the four keys."""

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
        keys = sorted(self.model_fields_set)
        if len(keys) != 1 or getattr(self, keys[0]) is None:
            amounts = "nothing" if not keys else " and ".join(keys)
            raise ValueError(f"has {amounts}; set exactly one of {', '.join(_WAYS)}")
        return self


class Cpus(Section):
    """CPUs for the operating system and Kubernetes' own daemons."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": given("avoid"),
            "then": {"not": {"anyOf": [given("reserved", given(way)) for way in _FIXED]}},
        }
    )

    reserved: ReservedCpus | None = Field(
        default=None,
        description="The reserved CPUs. Unset: those that the kubelet reserves now, otherwise whole cores, "
        "whose number grows with the machine up to a sixteenth of its cores.",
        examples=[{"cores_per_numa_node": 1}],
    )
    avoid: Literal["devices"] | None = Field(
        default=None,
        description="devices: reserve cores on NUMA nodes without GPUs, NICs and NVMe drives, as long as "
        "these have any left. Unset: on the NUMA nodes of the devices.",
        examples=["devices"],
    )

    smt: Off | None = Field(
        default=None,
        description="off leaves one thread of each core online. The node is drained, and its kubelet "
        "restarts with the remaining CPUs.",
        examples=["off"],
    )
    offline: CpulistText | None = Field(
        default=None,
        description="CPUs to take offline, such as those of a package that no workload needs. CPU 0 stays "
        "online.",
        examples=["96-191"],
    )

    @model_validator(mode="after")
    def _place_is_open(self) -> Self:
        ways = [way for way in _FIXED if self.reserved and getattr(self.reserved, way) is not None]
        if self.avoid and ways:
            raise ValueError(
                f"has avoid: {self.avoid}, and reserved.{ways[0]} already fixes the place; use cores or "
                "cores_per_package, or leave one of them out"
            )
        return self
