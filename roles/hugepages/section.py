"""Section `hugepages`: pools of huge pages, each of one size and in one place."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from numaforge.lib.quantity import format_bytes
from numaforge.lib.section import Section, at_most_one_of, exactly_one_of
from numaforge.lib.section_values import SHARE, Count, as_text, byte_count, fits

_HUGEPAGE_SIZE = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi)")


MemoryShare = Annotated[
    str,
    BeforeValidator(fits(SHARE, "is not a share of a NUMA node's memory; write for example 25%")),
    as_text("percentage", f"^{SHARE.pattern}$"),
]
HugepageSize = Annotated[
    str,
    BeforeValidator(
        fits(_HUGEPAGE_SIZE, "is not a hugepage size as Kubernetes writes it; write for example 2Mi or 1Gi")
    ),
    AfterValidator(lambda text: format_bytes(byte_count(text))),
    as_text("hugepage size", f"^{_HUGEPAGE_SIZE.pattern}$"),
]


_AMOUNTS = ("count_per_numa_node", "count", "share")
_PLACES = ("numa_node", "numa_nodes")


class Hugepages(Section):
    """Pages of one size, by exactly one of count_per_numa_node, count and share."""

    model_config = ConfigDict(json_schema_extra={**exactly_one_of(*_AMOUNTS), **at_most_one_of(*_PLACES)})

    size: HugepageSize = Field(description="The page's size as Kubernetes writes it.", examples=["1Gi"])
    count_per_numa_node: Count | None = Field(
        default=None,
        description="This many pages on each NUMA node, or in total if the kernel shows no NUMA nodes.",
        examples=[16],
    )
    count: Count | None = Field(
        default=None,
        description="This many pages in total, spread evenly over the NUMA nodes.",
        examples=[64],
    )
    share: MemoryShare | None = Field(
        default=None,
        description="This share of each NUMA node's memory, rounded down to whole pages.",
        examples=["25%"],
    )
    numa_node: Count | None = Field(default=None, description="Only on this NUMA node.", examples=[0])
    numa_nodes: tuple[Count, ...] | None = Field(
        default=None,
        description="Only on these NUMA nodes. Unset: all NUMA nodes that have both CPUs and memory.",
        min_length=1,
        examples=[[0, 1]],
    )

    at: Literal["boot"] | None = Field(
        default=None,
        description="boot: the kernel command line reserves the pages before memory is fragmented; for one "
        "size only, and `maintenance.reboot` must allow it. Unset: at run time.",
        examples=["boot"],
    )

    @model_validator(mode="after")
    def _one_amount_and_one_place(self) -> Self:
        amounts = [name for name in _AMOUNTS if getattr(self, name) is not None]
        if len(amounts) != 1:
            given_amounts = " and ".join(amounts) or "no amount"
            raise ValueError(f"has {given_amounts}; set exactly one of {', '.join(_AMOUNTS)}")
        if self.numa_node is not None and self.numa_nodes is not None:
            raise ValueError("numa_node and numa_nodes are mutually exclusive")
        return self
