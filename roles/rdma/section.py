"""Section `rdma`: RDMA devices for pods, and the RDMA settings of the host and its libraries."""

from __future__ import annotations

from pydantic import Field

from numaforge.lib.section import Section
from numaforge.roles.rdma.gpudirect_section import GpuDirect
from numaforge.roles.rdma.host_section import RdmaHost
from numaforge.roles.rdma.libraries_section import Libraries
from numaforge.roles.rdma.pools_section import SharedDevicePlugin

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
