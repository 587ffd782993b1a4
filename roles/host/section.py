"""Section `host`: limits, packages, clock and control groups of the userland."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from numaforge.lib.section import Section, each_once
from numaforge.lib.section_values import QUANTITY, Count, as_text, byte_count

UNLIMITED = "unlimited"


ByteLimit = Annotated[
    int | Literal["unlimited"],
    BeforeValidator(lambda value: value if value == UNLIMITED else byte_count(value)),
    as_text("quantity or unlimited", f"^({QUANTITY}|{UNLIMITED})$", or_a=("integer",), minimum=0),
]
Held = Literal["kernel", "driver", "kubelet", "containerd"]


class Limits(Section):
    """Resource limits of logins, and of the units of the kubelet and the container runtime."""

    nofile: Count | None = Field(
        default=None, description="Open files; at most fs.nr_open.", examples=[1048576]
    )
    nproc: Count | Literal["unlimited"] | None = Field(
        default=None, description="Processes per user, for logins only.", examples=[UNLIMITED]
    )
    memlock: ByteLimit | None = Field(
        default=None,
        description="Locked memory, for logins only; `rdma.host.memlock` is for the units.",
        examples=[UNLIMITED],
    )
    stack: ByteLimit | None = Field(default=None, description="Stack size of a thread.", examples=["64Mi"])
    core: ByteLimit | None = Field(default=None, description="Size of a core dump.", examples=[0])


class Host(Section):
    """The userland. Unset keys leave the host as it is."""

    limits: Limits = Field(default=Limits.unset(), description="Resource limits.")
    hold_packages: Annotated[tuple[Held, ...], AfterValidator(each_once)] = Field(
        default=(),
        description="Packages held at their version, in manual and unattended upgrades.",
        examples=[["kernel", "driver", "kubelet", "containerd"]],
    )
    time_sync: Literal["required"] | None = Field(
        default=None,
        description="required: verification fails if the clock is not synchronised.",
        examples=["required"],
    )
    cgroup: Literal["v2"] | None = Field(
        default=None, description="v2: a host with cgroup v1 is refused.", examples=["v2"]
    )
