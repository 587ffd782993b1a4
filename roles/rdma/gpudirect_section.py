"""Section `rdma.gpudirect`: PCIe access control between GPUs and NICs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from numaforge.sections.section import Section

AccessControlWish = Literal["keep", "correct", "bare-metal", "virtual-machines"]


class GpuDirect(Section):
    """What GPUDirect needs of PCIe. Whatever is unset is left as the host has it."""

    acs: AccessControlWish = Field(
        default="keep",
        description="PCIe access control (ACS) of the bridges between GPUs and NICs: `keep` leaves it, "
        "`correct` sets what GPUDirect needs by pci=config_acs= on the kernel's command line, for guests "
        "where the NICs have address translation (ATS); the other two say which it is.",
    )
