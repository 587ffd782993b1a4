"""Section `maintenance`: what numaforge may do to a node to apply its plan."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from numaforge.lib.section import Section


class Maintenance(Section):
    """What numaforge may do to a node while it is drained."""

    reboot: Literal["never", "allowed"] = Field(
        default="never",
        description="allowed lets numaforge reboot the node for changes that need a reboot; never reports "
        "them as pending.",
        examples=["allowed"],
    )
