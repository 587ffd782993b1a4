"""Kinds of values that several sections hold, and what the schema says of a value that is written as text."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from numaforge.errors import NumaforgeError
from numaforge.quantity import parse_quantity

PERCENT = re.compile(r"\d+(\.\d+)?%")


def byte_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(
            f"{value!r} is not a Kubernetes quantity; write for example 8Gi, 512Mi or 1073741824"
        )
    try:
        quantity = parse_quantity(value)
    except NumaforgeError as error:
        raise ValueError(f"{error.message}; {error.remedy}") from error
    if quantity < 0 or quantity.denominator != 1:
        raise ValueError(
            f"{value!r} is not a whole, positive number of bytes; write for example 8Gi or 512Mi"
        )
    return int(quantity)


def as_text(*, form: str) -> WithJsonSchema:
    """Return what the schema says of a value that is written as text of a certain form."""
    return WithJsonSchema({"type": "string", "format": form})


ByteCount = Annotated[int, BeforeValidator(byte_count), as_text(form="quantity")]
Count = Annotated[int, Field(ge=0, strict=True)]
