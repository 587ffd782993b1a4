"""Section `memory`: memory kept from pods, and how it is spread over the NUMA nodes."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from numaforge.lib.quantity import format_bytes
from numaforge.lib.section import Section
from numaforge.lib.section_values import PERCENTAGE, QUANTITY, ByteCount, as_text, byte_count


def _eviction_threshold(value: object) -> str:
    text = str(value)
    if not text.endswith("%"):
        count = byte_count(value)
        if count == 0:
            raise ValueError("the kubelet refuses a threshold of 0; write 0% for none")
        return format_bytes(count)
    if not re.fullmatch(PERCENTAGE, text):
        raise ValueError(f"{text!r} is not a percentage from 0% to 100%; write for example 5% or 100Mi")
    return text


EvictionThreshold = Annotated[
    str,
    BeforeValidator(_eviction_threshold),
    as_text("quantity or percentage", f"^({QUANTITY}|{PERCENTAGE})$", or_a=("integer",), minimum=1),
]
EvictionSignal = Literal[
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
]


class Memory(Section):
    """Memory that pods never get, and how it is spread over the NUMA nodes."""

    kube_reserved: ByteCount | None = Field(
        default=None,
        description="kubeReserved.memory: for the kubelet and the container runtime.",
        examples=["1Gi"],
    )
    system_reserved: ByteCount | None = Field(
        default=None,
        description="systemReserved.memory: for the operating system's daemons.",
        examples=["2Gi"],
    )
    eviction_hard: dict[EvictionSignal, EvictionThreshold] = Field(
        default={},
        description="Hard eviction thresholds; signals that are not named keep the kubelet's default.",
        examples=[{"memory.available": "1Gi", "nodefs.available": "10%"}],
    )
    split: Literal["proportional", "even"] | None = Field(
        default=None,
        description="How reservedMemory is divided among NUMA nodes: in proportion to their memory, or "
        "equally. Unset: proportional.",
        examples=["even"],
    )
