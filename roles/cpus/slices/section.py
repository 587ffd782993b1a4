"""Section `system`: which CPUs the system's own daemons use."""

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from numaforge.lib.section import Section, each_once

Slice = Literal["system.slice", "user.slice", "init.scope", "machine.slice"]
SLICES: tuple[str, ...] = get_args(Slice)


class System(Section):
    """The system's own daemons. Unset keys, and `keep`, leave the host as it is."""

    daemons: Literal["reserved", "keep"] | None = Field(
        default=None,
        description="reserved: processes in these slices run only on the reserved CPUs (needs cgroup v2).",
        examples=["reserved"],
    )
    slices: Annotated[tuple[Slice, ...], AfterValidator(each_once)] = Field(
        default=("system.slice", "user.slice", "init.scope"),
        min_length=1,
        description="The systemd units to confine; none of them contains pods.",
        examples=[["system.slice", "user.slice"]],
    )
