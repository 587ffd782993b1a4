"""Section `dra`: what the drivers of dynamic resource allocation are told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from numaforge.sections.section import ProfileKey, Section


class Dra(Section):
    """What drivers of dynamic resource allocation hand out, and how. Unset: nothing is said to them."""

    cpu_device_mode: Literal["grouped", "individual"] | None = Field(
        default=None,
        description="cpuDeviceMode of the CPU driver: a device for each group of CPUs, of which claims take "
        "a number, or one for each CPU. Unset: grouped. For kubelet.resource_engine: dra alone.",
        examples=["individual"],
    )
    cpu_group_by: Literal["numanode", "socket", "machine"] | None = Field(
        default=None,
        description="groupBy of the CPU driver: what a group of CPUs is. Unset: numanode, so that a claim's "
        "CPUs are on one NUMA node.",
        examples=["socket"],
    )
    gpus: Literal["device-plugin", "claims"] = Field(
        default="device-plugin",
        description="Who hands out GPUs. With claims a DRA driver does, and no device plugin: the Node's "
        "Allocatable has no GPUs, and numaforge does not miss them there.",
        examples=["claims"],
    )


KEY = ProfileKey("dra", Dra, Dra.unset(), "Dynamic resource allocation: what its drivers hand out.")
