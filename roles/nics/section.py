"""Section `nic_queues`: the number of queues, and so of interrupts, of the host's NICs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from numaforge.roles.rdma.host_section import Nic
from numaforge.sections.section import ProfileKey, Removable

_MOST = 4096  # more than any NIC has


class NicQueues(Removable):
    """How many combined channels the NICs have; unset, they keep what the driver made: one for each CPU."""

    combined: Literal["reserved"] | Annotated[int, Field(strict=True, ge=1, le=_MOST)] | None = Field(
        default=None,
        description="reserved: as many as there are reserved CPUs; or a number. A NIC loses its link for a "
        "moment, so the node is drained.",
        examples=["reserved", 16],
    )
    nics: tuple[Nic, ...] = Field(
        default=(),
        description="Which NICs, as RDMA device, interface or PCI address. Unset: all with Ethernet, without "
        "virtual functions and that of the default route.",
        examples=[["eth2", "mlx5_0"]],
    )


KEY = ProfileKey("nic_queues", NicQueues, NicQueues.unset(), "How many queues, and so interrupts, NICs have.")
