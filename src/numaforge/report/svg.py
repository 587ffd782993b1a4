"""Write a picture as SVG, one file with nothing to fetch, or with typst as PNG or PDF, by a file's suffix."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.resources import template_dir
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.report.boxes import Box, Text
from numaforge.report.layout import Picture, lay_out

_ROUNDED = {"package": 8, "numa-node": 6, "l3": 4, "core": 3, "thread": 2, "swatch": 2}
_ROUNDED |= dict.fromkeys(("device", "pcie-switch", "gpu-switch"), 4) | {"part": 2}
_INVISIBLE = frozenset(
    {"machine", "heading", "legend", "legend-entry", "numa-heading", "cores", "group", "memory", "memory-row"}
    | {"devices", "device-row", "parts"}
)


_PIXELS_PER_INCH = 144.0  # twice the SVG's own size
_PAGE = b"""#set document(date: none)
#set page(width: auto, height: auto, margin: 0pt)
#image("picture.svg")
"""
_FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"format": "png", "ppi": _PIXELS_PER_INCH},
    ".pdf": {"format": "pdf"},
}


def draw(topology: NodeTopology, plan: NodePlan | None = None) -> str:
    """Return the SVG of a machine, always the same; with a plan, colours tell reserved CPUs and memory."""
    return "\n".join(_document(lay_out(topology, plan))) + "\n"


def _document(picture: Picture) -> Iterator[str]:
    width, height = _number(picture.root.width), _number(picture.root.height)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="title desc">'
    )
    yield f'<title id="title">{_escaped(picture.title)}</title>'
    yield f'<desc id="desc">{_escaped(picture.description)}</desc>'
    light, dark, patterns = map(_part, ("light.css", "dark.css", "patterns.xml"))
    yield f"<style>{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}</style>"
    yield f"<defs>{patterns}</defs>"
    yield from _box(picture.root)
    yield "</svg>"


@cache
def _part(name: str) -> str:
    """Return a file of the head: the colours of Okabe and Ito, for any colour vision, and patterns."""
    return (template_dir() / "picture" / name).read_text(encoding="utf-8").strip()


def _box(box: Box) -> Iterator[str]:
    placed = f' transform="translate({_number(box.x)} {_number(box.y)})"' if box.x or box.y else ""
    data = "".join(f" data-{name}={quoteattr(value)}" for name, value in box.data.items())
    yield f"<g{placed}{data}>"
    if box.title:
        yield f"<title>{_escaped(box.title)}</title>"
    if not _INVISIBLE.intersection(box.kinds):
        classes, width, height = " ".join(box.kinds), _number(box.width), _number(box.height)
        radius = next((f' rx="{_ROUNDED[kind]}"' for kind in box.kinds if kind in _ROUNDED), "")
        yield f'<rect class="{classes}" width="{width}" height="{height}"{radius}/>'
    for text in box.texts:
        yield _text(text, on_reserved="cpu-reserved" in box.kinds)
    for child in box.children:
        yield from _box(child)
    yield "</g>"


def _text(text: Text, on_reserved: bool) -> str:
    classes = {"bold": text.bold, "muted": text.muted, "on-reserved": on_reserved}
    names = " ".join(name for name, applies in classes.items() if applies)
    styled = f' class="{names}"' if names else ""
    anchor = f' text-anchor="{text.anchor}"' if text.anchor != "start" else ""
    return (
        f'<text x="{_number(text.x)}" y="{_number(text.y)}" font-size="{_number(text.size)}"{anchor}{styled}>'
        f"{_escaped(text.content)}</text>"
    )


def _escaped(text: str) -> str:
    """Escape for XML, with the control characters that XML 1.0 cannot hold replaced."""
    return escape(re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def check_format(output: str | None) -> None:
    """Raise NumaforgeError for a name with an unknown suffix; None is standard output."""
    suffix = _suffix(output)
    if suffix not in {"", ".svg", *_FORMATS}:
        raise NumaforgeError(
            f"pictures are not saved as {suffix}",
            where=output,
            remedy="choose a name that ends in .svg, .png or .pdf",
        )
    if suffix in _FORMATS:
        _typst(output)


def in_format(svg: str, output: str | None) -> str | bytes:
    """Return the picture as the file's name asks for; the same picture gives the same bytes."""
    arguments = _FORMATS.get(_suffix(output))
    if arguments is None:
        return svg
    pages = {"main.typ": _PAGE, "picture.svg": svg.encode()}
    compiled: bytes = _typst(output).compile(pages, **arguments)
    return compiled


def _suffix(output: str | None) -> str:
    """Return the suffix of a name: `.svg` of `node.svg`, and of `.svg` alone, which is a format."""
    if output is None:
        return ""
    name = PurePath(output)
    return (name.suffix or name.name if name.name.startswith(".") else name.suffix).lower()


def _typst(output: str | None) -> Any:
    try:
        import typst
    except ImportError as error:
        raise NumaforgeError(
            f"PNG and PDF need the package typst ({error})",
            where=output,
            remedy="pip install 'numaforge[pictures]', or save it as .svg",
        ) from error
    return typst
