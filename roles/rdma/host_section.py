"""Section `rdma.host`: kernel modules, limits and NIC settings for RDMA."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from numaforge.roles.modules.section import ModuleName
from numaforge.sections.section import Section
from numaforge.sections.values import as_text

_NIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_PRIORITIES = range(8)  # IEEE 802.1Q


def _nic(value: object) -> str:
    if not isinstance(value, str) or not _NIC.fullmatch(value):
        raise ValueError(
            f"{value!r} names no NIC; write an RDMA device (mlx5_0), an interface (eth2) or a PCI address"
        )
    return value


def _priorities(value: tuple[int, ...]) -> tuple[int, ...]:
    if len({*value}) != len(value):
        raise ValueError("names a priority more than once")
    return tuple(sorted(value))


Nic = Annotated[str, BeforeValidator(_nic), as_text("NIC", f"^{_NIC.pattern}$")]
Priority = Annotated[int, Field(strict=True, ge=_PRIORITIES[0], le=_PRIORITIES[-1])]


class WaitForVirtualFunctions(Section):
    """What a boot waits for before the kubelet starts, and how long."""

    count: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = Field(
        default=None,
        description="How many virtual functions with an RDMA device each NIC is to have. Unset: those RDMA "
        "devices that the NICs have when the node is planned.",
        examples=[8],
    )
    timeout_seconds: Annotated[int, Field(strict=True, ge=1, le=600)] = Field(
        default=120,
        description="After that the kubelet starts all the same, and the unit has failed.",
        examples=[300],
    )


class RdmaHost(Section):
    """What RDMA needs of the host. Whatever is unset is left as the host has it."""

    modules: Literal["mlx5"] | tuple[ModuleName, ...] = Field(
        default=(),
        description="Modules to load, beside those of `modules.load`; mlx5 is the set for ConnectX and "
        "BlueField: mlx5_ib, ib_uverbs, ib_umad, rdma_ucm, rdma_cm.",
        examples=["mlx5", ["irdma", "ib_uverbs", "rdma_ucm"]],
    )
    netns: Literal["shared", "exclusive"] | None = Field(
        default=None,
        description="Whether network namespaces share RDMA devices, as the shared device plugin needs, or "
        "have their own, as the RDMA CNI does.",
        examples=["shared"],
    )
    memlock: Literal["unlimited"] | None = Field(
        default=None,
        description="How much memory the container runtime, the kubelet and so the pods may pin.",
        examples=["unlimited"],
    )
    nics: Literal["rails"] | tuple[Nic, ...] = Field(
        default="rails",
        description="Which NICs the settings below are for: those with GPUs near to them (all with RDMA "
        "where the machine has no GPU), or those named.",
        examples=["rails", ["mlx5_0", "mlx5_1"]],
    )
    max_read_request: Literal[128, 256, 512, 1024, 2048, 4096] | None = Field(
        default=None, description="PCIe's largest read request, in bytes.", examples=[4096]
    )
    relaxed_ordering: bool | None = Field(
        default=None,
        description="Whether the NICs order PCIe writes loosely. It is a setting of their firmware: the plan "
        "shows the command, and numaforge does not run it.",
        examples=[True],
    )
    trust: Literal["dscp", "pcp"] | None = Field(
        default=None, description="What tells the priority of a packet on Ethernet.", examples=["dscp"]
    )
    pfc: Annotated[tuple[Priority, ...], AfterValidator(_priorities)] | None = Field(
        default=None,
        description="The priorities that pause instead of dropping packets, 0 to 7, on Ethernet; all others "
        "do not.",
        examples=[[3]],
    )
    wait_for_virtual_functions: WaitForVirtualFunctions | None = Field(
        default=None,
        description="Have the kubelet wait at boot until the RDMA devices are there.",
        examples=[{"count": 8, "timeout_seconds": 120}],
    )
