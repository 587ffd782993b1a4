"""Nested boxes, with every text measured before it is placed: the building blocks of pictures."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from numaforge.report.wording import ELLIPSIS

# Widths of DejaVu Sans in thousandths of the font size. It is the widest of the common sans-serif fonts: what
# fits in it fits in the others.
_NARROW, _USUAL, _WIDE = 420, 650, 1000
_NARROW_CHARACTERS = frozenset(" .,:;!|'()[]ijltfr-/·…")
_WIDE_CHARACTERS = frozenset("mwMWQO@%+=<>#&")


PADDING = 10
LINE = 1.45  # line height per font size
SMALL, BODY, HEADING, TITLE = 10, 11, 13, 20


class Text(NamedTuple):
    """One line of text in its box: `x` is the position of its anchor, `y` its baseline."""

    content: str
    x: float
    y: float
    size: float
    anchor: str = "start"
    bold: bool = False
    muted: bool = False

    @property
    def width(self) -> float:
        """The upper bound of its width."""
        return text_width(self.content, self.size, self.bold)


@dataclass(frozen=True)
class Box:
    """A rectangle in its parent's coordinates. `kinds` are its CSS classes, `title` its tooltip."""

    kinds: tuple[str, ...]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    title: str = ""
    texts: tuple[Text, ...] = ()
    children: "tuple[Box, ...]" = ()
    data: Mapping[str, str] = field(default_factory=dict)

    def at(self, x: float, y: float) -> "Box":
        """Return the same box elsewhere in its parent."""
        return replace(self, x=x, y=y)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return an upper bound of a text's width in pixels."""
    thousandths = sum(_character_width(character) for character in text)
    return thousandths * size / 1000 * (1.1 if bold else 1.0)


def fitted(candidates: Iterable[str], width: float, size: float, bold: bool = False) -> str:
    """Return the first text that fits into `width`, else the last one cut short with an ellipsis."""
    last = ""
    for last in candidates:
        if text_width(last, size, bold) <= width:
            return last
    if not last:
        return ""
    too_long = bisect_left(
        range(1, len(last) + 1), True, key=lambda n: text_width(last[:n] + ELLIPSIS, size, bold) > width
    )
    last = last[:too_long]
    return last.rstrip(" ,·") + ELLIPSIS if last else ""


def broken(text: str, width: float, size: float) -> list[str]:
    """Return a text in lines that fit into `width`, broken after commas and spaces; a longer piece is cut."""
    lines = [""]
    for piece in re.findall(r"[^, ]*[, ]*", text):
        if lines[-1] and text_width(lines[-1] + piece.rstrip(" "), size) > width:
            lines.append("")
        lines[-1] += piece
    return [fitted([line.rstrip(" ")], width, size) for line in lines]


def _character_width(character: str) -> int:
    if character in _NARROW_CHARACTERS:
        return _NARROW
    if not character.isascii() or character in _WIDE_CHARACTERS:
        return _WIDE
    return _USUAL + 60 if character.isupper() else _USUAL


def in_grid(kind: str, boxes: Sequence[Box], columns: int, gap: float, stretched: bool = True) -> Box:
    """Return the boxes in rows of `columns`; stretched ones fill their column and their row."""
    columns = min(columns, len(boxes))
    widths = [max(box.width for box in boxes[column::columns]) for column in range(columns)]
    placed: list[Box] = []
    y = 0.0
    for start in range(0, len(boxes), columns):
        row = boxes[start : start + columns]
        height = max(box.height for box in row)
        for column, box in enumerate(row):
            sized = replace(box, width=widths[column], height=height) if stretched else box
            placed.append(sized.at(sum(widths[:column]) + column * gap, y))
        y += height + gap
    return Box((kind,), sum(widths) + gap * (columns - 1), y - gap, children=tuple(placed))


def stacked(boxes: Sequence[Box], gap: float) -> list[Box]:
    placed, y = [], 0.0
    for box in boxes:
        placed.append(box.at(0, y))
        y += box.height + gap
    return placed


def bottom(boxes: Sequence[Box]) -> float:
    return max((box.y + box.height for box in boxes), default=0.0)


def panel(label: str, content: Sequence[Box], width: float) -> Box:
    """Return a box with a heading above the placed content."""
    heading = fitted([label], width - 2 * PADDING, HEADING, bold=True)
    text = Text(heading, PADDING, PADDING + HEADING - 1, HEADING, bold=True)
    top = PADDING + HEADING * LINE
    return framed("package", content, width, PADDING, top=top, title=label, texts=(text,))


def framed(
    kind: str,
    content: Sequence[Box],
    width: float,
    margin: float,
    *,
    top: float | None = None,
    title: str = "",
    texts: tuple[Text, ...] = (),
) -> Box:
    """Return a box around placed content, with a margin; `top` is the upper one, where it is another."""
    above = margin if top is None else top
    height = above + bottom(content) + margin
    children = tuple(box.at(box.x + margin, box.y + above) for box in content)
    return Box((kind,), width, height, title=title, texts=texts, children=children)
