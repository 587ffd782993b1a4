"""Section `maintenance`: what numaforge may do to a node to apply its plan."""

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
    rehearsal: Literal["required", "when-possible", "never"] = Field(
        default="when-possible",
        description="Whether a node's own kubelet tries the plan beside the running one before anything is "
        "drained. A plan that it refuses is not applied; required also refuses a plan that cannot be "
        "rehearsed there.",
        examples=["required"],
    )
