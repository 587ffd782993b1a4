"""Section `measure`: whether a node must be measured before a roll-out puts it back into service."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from numaforge.sections.section import Section
from numaforge.sections.values import PERCENTAGE, as_text

_SHARE = rf"(?!0+(\.0+)?%){PERCENTAGE}"


def _share(value: object) -> str:
    text = str(value)
    if not re.fullmatch(_SHARE, text):
        raise ValueError(f"{value!r} is not a share above 0% and up to 100%; write for example 80%")
    return text


LeastShare = Annotated[str, BeforeValidator(_share), as_text("percentage", f"^{_SHARE}$")]


class Measure(Section):
    """Whether measurements hold a node. `measure: required` is short for `gate: required`."""

    gate: Literal["none", "required"] = Field(
        default="none",
        description="required holds a drained node, cordoned, if it was not measured or if a figure is "
        "worse than its siblings'.",
        examples=["required"],
    )
    least_share: LeastShare = Field(
        default="80%",
        description="The share of its siblings' median that each figure must reach.",
        examples=["90%"],
    )


def _in_one_word(value: Any) -> Any:
    return {"gate": value} if value == "required" else value


MeasureWish = Annotated[
    Measure, BeforeValidator(_in_one_word, json_schema_input_type=Measure | Literal["required"])
]
