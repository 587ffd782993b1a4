"""A conversion as a profile's file: YAML with comments on the origin of each value and what to know."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from numaforge.lib.ordering import grouped
from numaforge.planning.convert.draft import Conversion
from numaforge.planning.convert.rows import Fate

_WIDTH = 110
_HEADINGS = {
    Fate.DIFFERS: "Means something a little different here:",
    Fate.NOT_EXPRESSED: "Is about the node, and no key of a profile covers it:",
    Fate.NOT_OURS: "Is not for a profile:",
}


def as_yaml(conversion: Conversion, file: str) -> str:
    """Return the file's text; `place` is the file that was converted."""
    head = [f"# Converted by numaforge from {conversion.source}: {_one_line(file)}", *_notes(conversion)]
    body = list(_mapping(conversion.profile, conversion.origins)) or ["{}  # nothing of it is for a profile"]
    return "\n".join([*head, "", *body, ""])


def _notes(conversion: Conversion) -> Iterator[str]:
    for fate, heading in _HEADINGS.items():
        by_text = grouped((note.text, note.field) for note in conversion.notes if note.fate is fate)
        if not by_text:
            continue
        yield "#"
        yield f"# {heading}"
        for text, fields in by_text.items():
            words = f"{', '.join(fields)}: {text}"
            yield from textwrap.wrap(
                words,
                _WIDTH,
                initial_indent="#   ",
                subsequent_indent="#     ",
                break_long_words=False,
                break_on_hyphens=False,
            )


def _mapping(
    profile: Mapping[str, Any], origins: Mapping[str, str], path: str = "", depth: int = 0
) -> Iterator[str]:
    for name, value in profile.items():
        field = f"{path}.{name}" if path else str(name)
        origin = origins.get(field)
        comment = f"  # {_one_line(origin)}" if origin else ""
        indent = "  " * depth
        key = _inline(name)
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:{comment}"
            yield from _mapping(value, origins, field, depth + 1)
        elif isinstance(value, list):
            yield f"{indent}{key}:{comment}"
            yield from (f"{indent}  - {_inline(entry)}" for entry in value)
        else:
            yield f"{indent}{key}: {_inline(value)}{comment}"


def _one_line(text: str) -> str:
    """Return a text as one line, fit for a comment."""
    return " ".join(text.split())


def _inline(value: Any) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=float("inf"), allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")
