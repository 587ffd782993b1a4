"""Section `rdma.gpudirect`: PCIe access control between GPUs and NICs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from numaforge.lib.section import Section

AccessControlWish = Literal["keep", "correct", "bare-metal", "virtual-machines"]


class GpuDirect(Section):
    """PCIe settings for GPUDirect. Unset keys leave the host as it is."""

    acs: AccessControlWish = Field(
        default="keep",
        description="PCIe access control (ACS) of the bridges between GPUs and NICs. `keep` leaves it "
        "alone. `correct` sets what GPUDirect needs with pci=config_acs= on the kernel command line: for "
        "virtual machines if the NICs have address translation (ATS), otherwise for bare metal. The other "
        "two values make that choice explicit.",
    )
