"""Section `nic_queues`: the number of queues, and so of interrupts, of the host's NICs."""

from typing import Annotated, Literal

from pydantic import Field

from numaforge.lib.section import Removable
from numaforge.roles.rdma.host_section import Nic

_MOST = 4096  # more than any NIC has


class NicQueues(Removable):
    """The number of combined channels of NICs. Unset: as the driver made them, one for each CPU."""

    combined: Literal["reserved"] | Annotated[int, Field(strict=True, ge=1, le=_MOST)] | None = Field(
        default=None,
        description="A number, or reserved: one per reserved CPU. A change takes a NIC's link down briefly, "
        "so the node is drained.",
        examples=["reserved", 16],
    )
    nics: tuple[Nic, ...] = Field(
        default=(),
        description="The NICs to change, by RDMA device, interface or PCI address. Unset: all Ethernet NICs "
        "except virtual functions and the NIC of the default route.",
        examples=[["eth2", "mlx5_0"]],
    )
