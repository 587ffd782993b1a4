"""The measurements that a node needs before it goes back into service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from numaforge.lib.reasons import Decision, Reasoned
from numaforge.lib.section import Section
from numaforge.lib.section_values import SHARE, as_text, fits

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


MinShare = Annotated[
    str,
    BeforeValidator(fits(SHARE, "is not a share above 0% and up to 100%; write for example 80%")),
    as_text("percentage", f"^{SHARE.pattern}$"),
]


class Measure(Section):
    """Whether measurements hold a node. `measure: required` is short for `gate: required`."""

    gate: Literal["none", "required"] = Field(
        default="none",
        description="required holds a drained node, cordoned, if it was not measured or if a figure is "
        "worse than its siblings'.",
        examples=["required"],
    )
    min_share: MinShare = Field(
        default="80%",
        description="The share of its siblings' median that each figure must reach.",
        examples=["90%"],
    )


def _in_one_word(value: Any) -> Any:
    return {"gate": value} if value == "required" else value


MeasureWish = Annotated[
    Measure, BeforeValidator(_in_one_word, json_schema_input_type=Measure | Literal["required"])
]


@dataclass(frozen=True)
class MeasurePlan:
    """The share of its siblings' median that each of the node's figures must reach: 0.8."""

    min_share: float


def plan_measure(profile: NodeProfile) -> Reasoned[MeasurePlan | None]:
    """Return the share that the profile asks for, if any."""
    wish = profile.measure
    if wish.gate == "none":
        return Reasoned(None)
    share = Decision("measure.min_share", wish.min_share, profile.choice("measure.min_share"))
    return Reasoned(MeasurePlan(float(wish.min_share.rstrip("%")) / 100), (share,))
