"""Section `rdma`: RDMA devices for pods, and the RDMA settings of the host and its libraries."""

from typing import Literal

from pydantic import Field

from numaforge.lib.section import Section
from numaforge.roles.rdma.host_section import RdmaHost
from numaforge.roles.rdma.libraries_section import Libraries
from numaforge.roles.rdma.pools_section import SharedDevicePlugin

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


__all__ = ["GpuDirect", "Libraries", "Rdma", "RdmaHost", "SharedDevicePlugin"]


class Rdma(Section):
    """RDMA on a node. Unset keys leave the host as it is."""

    device_plugin: SharedDevicePlugin = Field(
        default=SharedDevicePlugin.unset(), description="The pools of the shared RDMA device plugin."
    )
    host: RdmaHost = Field(default=RdmaHost.unset(), description="Modules, limits and NIC settings.")
    gpudirect: GpuDirect = Field(
        default=GpuDirect.unset(), description="What GPUs and NICs need to reach each other's memory."
    )
    libraries: Libraries = Field(
        default=Libraries.unset(), description="Settings of NCCL, UCX and NVSHMEM for the rails."
    )
