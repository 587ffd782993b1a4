"""Section `dra`: settings of the drivers of dynamic resource allocation."""

from typing import Literal

from pydantic import Field

from numaforge.lib.section import Section


class Dra(Section):
    """What the drivers of dynamic resource allocation allocate, and how. Unset: they are not configured."""

    cpu_device_mode: Literal["grouped", "individual"] | None = Field(
        default=None,
        description="cpuDeviceMode of the CPU driver: one device per group of CPUs, from which claims take "
        "a number of CPUs, or one device per CPU. Unset: grouped. Only with `kubelet.resource_engine: dra`.",
        examples=["individual"],
    )
    cpu_group_by: Literal["numanode", "socket", "machine"] | None = Field(
        default=None,
        description="groupBy of the CPU driver: what forms a group of CPUs. Unset: numanode, so that a "
        "claim's CPUs are on one NUMA node.",
        examples=["socket"],
    )
    gpus: Literal["device-plugin", "claims"] = Field(
        default="device-plugin",
        description="What allocates GPUs. claims: a DRA driver instead of a device plugin; the Node's "
        "Allocatable then has no GPUs, and numaforge does not expect any there.",
        examples=["claims"],
    )
