"""Section `made_for`: the kind of machine that a profile's values were chosen for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from numaforge.roles.rdma.pools_section import PciId
from numaforge.sections.section import Section

_Count = Annotated[int, Field(ge=1, strict=True)]


class MadeFor(Section):
    """The machines that the values were chosen for; a plan for any other machine has a notice."""

    gpus: tuple[PciId, ...] | None = Field(
        default=None,
        description="PCI vendor and device of its GPUs. An empty list: no GPUs.",
        examples=[["10de:2330", "10de:2335"]],
    )
    numa_nodes_per_package: tuple[_Count, ...] | None = Field(
        default=None,
        description="NUMA nodes with CPUs per package (NPS1 to NPS4, sub-NUMA clusters).",
        examples=[[2, 4]],
    )
    l3_per_numa_node: Literal["one", "several"] | None = Field(
        default=None,
        description="Whether the CPUs of a NUMA node have one L3 cache or several.",
        examples=["several"],
    )
