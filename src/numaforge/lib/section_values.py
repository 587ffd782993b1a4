"""Kinds of values that several sections share, and the schema of values written as text."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.quantity import parse_quantity

# A quantity that is not negative, for schemas; `parse_quantity` reads one.
QUANTITY = r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
# From 0% to 100%.
PERCENTAGE = r"0*(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)%"
# The same without 0%.
SHARE = re.compile(rf"(?!0+(\.0+)?%){PERCENTAGE}")


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


def as_text(
    form: str, pattern: str = "", *, none_of: str = "", or_a: tuple[str, ...] = (), **more: Any
) -> WithJsonSchema:
    """Return the schema of a text of a `form`, and of JSON's other types `or_a`; `more` are keywords."""
    schema = {"type": ["string", *or_a] if or_a else "string", "format": form, **more}
    if pattern:
        schema["pattern"] = pattern
    if none_of:
        schema["not"] = {"pattern": none_of}
    return WithJsonSchema(schema)


def fits(pattern: re.Pattern[str], complaint: str, *, quoted: bool = False) -> Callable[[object], object]:
    """Return a validator of texts that fit a whole pattern; `complaint` says what another one is not.

    Where it is `quoted`, a number that YAML has read without quotes is refused, too.
    """

    def check(value: object) -> object:
        text = value if quoted else str(value)
        if not isinstance(text, str) or not pattern.fullmatch(text):
            raise ValueError(f"{text!r} {complaint}")
        return text

    return check


ByteCount = Annotated[
    int, BeforeValidator(byte_count), as_text("quantity", f"^{QUANTITY}$", or_a=("integer",), minimum=0)
]
Count = Annotated[int, Field(ge=0, strict=True)]
