"""Sections `rdma.host` and `nic_queues`: modules, limits and NIC settings for RDMA, and NICs' queues."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from numaforge.lib.section import Removable, Section
from numaforge.lib.section_values import as_text, fits
from numaforge.roles.modules.section import ModuleName

_NIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_PRIORITIES = range(8)  # IEEE 802.1Q
_MOST_QUEUES = 4096  # more than any NIC has


def _priorities(value: tuple[int, ...]) -> tuple[int, ...]:
    if len({*value}) != len(value):
        raise ValueError("names a priority more than once")
    return tuple(sorted(value))


_NOT_A_NIC = "is not a NIC; write an RDMA device (mlx5_0), an interface (eth2) or a PCI address"
Nic = Annotated[
    str, BeforeValidator(fits(_NIC, _NOT_A_NIC, quoted=True)), as_text("NIC", f"^{_NIC.pattern}$")
]
Priority = Annotated[int, Field(strict=True, ge=_PRIORITIES[0], le=_PRIORITIES[-1])]


class WaitForVirtualFunctions(Section):
    """What to wait for at boot before the kubelet starts, and for how long."""

    count: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = Field(
        default=None,
        description="How many virtual functions with an RDMA device to wait for on each NIC. Unset: wait "
        "for the RDMA devices that the NICs have when the node is planned.",
        examples=[8],
    )
    timeout_seconds: Annotated[int, Field(strict=True, ge=1, le=600)] = Field(
        default=120,
        description="After this time the kubelet starts anyway, and the unit fails.",
        examples=[300],
    )


class RdmaHost(Section):
    """Host settings for RDMA. Unset keys leave the host as it is."""

    modules: Literal["mlx5"] | tuple[ModuleName, ...] = Field(
        default=(),
        description="Modules to load in addition to `modules.load`; mlx5 is the set for ConnectX and "
        "BlueField: mlx5_ib, ib_uverbs, ib_umad, rdma_ucm, rdma_cm.",
        examples=["mlx5", ["irdma", "ib_uverbs", "rdma_ucm"]],
    )
    netns: Literal["shared", "exclusive"] | None = Field(
        default=None,
        description="Whether network namespaces share RDMA devices, as the shared device plugin needs, or "
        "have their own, as the RDMA CNI needs.",
        examples=["shared"],
    )
    memlock: Literal["unlimited"] | None = Field(
        default=None,
        description="How much memory the container runtime and the kubelet, and therefore pods, may pin.",
        examples=["unlimited"],
    )
    nics: Literal["rails"] | tuple[Nic, ...] = Field(
        default="rails",
        description="The NICs that the settings below apply to. rails: the NICs near GPUs, or all NICs with "
        "RDMA if the machine has no GPU. A list: the named ones.",
        examples=["rails", ["mlx5_0", "mlx5_1"]],
    )
    max_read_request: Literal[128, 256, 512, 1024, 2048, 4096] | None = Field(
        default=None, description="The maximum PCIe read request, in bytes.", examples=[4096]
    )
    relaxed_ordering: bool | None = Field(
        default=None,
        description="Whether the NICs use relaxed ordering for PCIe writes. This is a firmware setting: the "
        "plan shows the command, and numaforge does not run it.",
        examples=[True],
    )
    trust: Literal["dscp", "pcp"] | None = Field(
        default=None, description="What determines the priority of a packet on Ethernet.", examples=["dscp"]
    )
    pfc: Annotated[tuple[Priority, ...], AfterValidator(_priorities)] | None = Field(
        default=None,
        description="The priorities, 0 to 7, that pause instead of dropping packets on Ethernet (priority "
        "flow control); all others do not pause.",
        examples=[[3]],
    )
    wait_for_virtual_functions: WaitForVirtualFunctions | None = Field(
        default=None,
        description="Delay the kubelet at boot until the RDMA devices exist.",
        examples=[{"count": 8, "timeout_seconds": 120}],
    )


class NicQueues(Removable):
    """The number of combined channels of NICs. Unset: as the driver made them, one for each CPU."""

    combined: Literal["reserved"] | Annotated[int, Field(strict=True, ge=1, le=_MOST_QUEUES)] | None = Field(
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
