"""The profile keys that set kernel values, one for each row of the table of knobs."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, create_model

from numaforge.lib.section import Section
from numaforge.machine.knobs import KNOBS, AtLeast, Knob, Word

Held = TypeVar("Held", bound=Section)


def with_knobs(prefix: str = "") -> Callable[[type[Held]], type[Held]]:
    """Add to a section the keys of the knobs at a place below `tuning`, such as "transparent_hugepages."."""

    def extended(section: type[Held]) -> type[Held]:
        keys = {knob.key.removeprefix(prefix): _key(knob) for knob in KNOBS if knob.key.startswith(prefix)}
        fields: dict[str, Any] = {name: key for name, key in keys.items() if "." not in name}
        model = create_model(section.__name__, __base__=section, __doc__=section.__doc__, **fields)
        model.__module__ = section.__module__
        return model

    return extended


def said(tuning: Section, knob: Knob) -> Word | None:
    """Return a knob's value in a profile's `tuning`; None where it is unset."""
    section_or_value: Any = tuning
    for name in knob.key.split("."):
        section_or_value = getattr(section_or_value, name, None)
    return section_or_value if isinstance(section_or_value, bool | int | str) else None


def sysctl_knobs(tuning: Section) -> dict[str, tuple[Knob, Word]]:
    """Return the sysctls that a profile sets by a knob: the knob and its value, by dotted name."""
    words = [(knob, said(tuning, knob)) for knob in KNOBS if knob.sysctl]
    return {knob.sysctl: (knob, word) for knob, word in words if knob.sysctl and word is not None}


def _key(knob: Knob) -> tuple[Any, Any]:
    return (
        _accepted(knob) | None,
        Field(default=None, description=knob.description, examples=[knob.example]),
    )


def _accepted(knob: Knob) -> Any:
    if isinstance(knob.word, AtLeast):
        return Annotated[int, Field(ge=knob.word.least, strict=True)]
    return Literal[knob.word] if isinstance(knob.word, tuple) else knob.word
