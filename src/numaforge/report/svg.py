"""Write a picture as SVG: one file with its own colours and patterns, no script and no font to fetch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from numaforge.report.layout import Picture, lay_out

if TYPE_CHECKING:
    from numaforge.report.boxes import Box, Text
    from numaforge.roles.node import NodePlan
    from numaforge.topology.model import NodeTopology

# Colours of Okabe and Ito, which people with any colour vision tell apart; what matters has a pattern too.
_STYLE = """
text { font-family: Inter, Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; fill: #1b1f24; }
.muted { fill: #57606a; }
.bold { font-weight: 600; }
.canvas { fill: #ffffff; }
.package { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.2; }
.numa-node { fill: #ffffff; stroke: #8c959f; }
.l3 { fill: #f6f8fa; stroke: #d0d7de; }
.core { fill: #ffffff; stroke: #8c959f; stroke-width: 0.8; }
.cpu { fill: #e4e9ee; }
.cpu-allocatable { fill: #cfe8f7; }
.cpu-reserved { fill: url(#hatched); stroke: #b35c00; stroke-width: 0.8; }
.bar { fill: #ffffff; stroke: #8c959f; }
.memory-reserved { fill: url(#hatched); }
.memory-hugepages-2Mi { fill: url(#dotted); }
.memory-hugepages-1Gi { fill: url(#crossed); }
.memory-hugepages { fill: url(#lined); }
.memory-pods { fill: #cfe8f7; }
.memory-free { fill: #e4e9ee; }
.swatch { stroke: #57606a; stroke-width: 0.6; }
.gpu { fill: #eef7ee; stroke: #00795c; }
.part-compute, .part-instance { fill: #a6dbc6; stroke: #00795c; stroke-width: 0.6; }
.part-memory { fill: #ffffff; stroke: #00795c; stroke-width: 0.6; stroke-dasharray: 3 1; }
.accelerator { fill: #eef4fb; stroke: #0072b2; stroke-dasharray: 8 2; }
.nic { fill: #fbf3f8; stroke: #a6467d; stroke-dasharray: 4 2; }
.nvme { fill: #f7f4e8; stroke: #6e5b12; stroke-dasharray: 1 2; }
.pcie-switch { fill: #f6f8fa; stroke: #57606a; stroke-dasharray: 2 2; }
.gpu-switch { fill: #d5eee6; stroke: #00795c; }
.gpu-link { fill: #00795c; }
.rail-link { fill: #a6467d; }
.on-reserved { font-weight: 600; stroke: #fde9c9; stroke-width: 2.4; paint-order: stroke; }
.hatched-ground { fill: #fde9c9; }
.dotted-ground { fill: #d3efe6; }
.crossed-ground { fill: #f7e3ee; }
.lined-ground { fill: #fbf8d6; }
""".strip()

# What differs where a page asks for dark colours.
_DARK_STYLE = """
text { fill: #e6edf3; }
.muted { fill: #9da7b3; }
.canvas, .numa-node, .core, .bar { fill: #0d1117; }
.package, .l3, .pcie-switch { fill: #161b22; }
.package, .numa-node, .core, .bar, .swatch, .pcie-switch { stroke: #768390; }
.l3 { stroke: #373e47; }
.cpu, .memory-free { fill: #373e47; }
.cpu-allocatable, .memory-pods { fill: #17456b; }
.cpu-reserved { stroke: #e69f00; }
.gpu { fill: #10291f; stroke: #3fb68b; }
.part-compute, .part-instance { fill: #1d5a42; stroke: #3fb68b; }
.part-memory { fill: #0d1117; stroke: #3fb68b; }
.accelerator { fill: #12243a; stroke: #56b4e9; }
.nic { fill: #2c1826; stroke: #d884b4; }
.nvme { fill: #2a2613; stroke: #c9b458; }
.gpu-switch { fill: #14402f; stroke: #3fb68b; }
.gpu-link { fill: #3fb68b; }
.rail-link { fill: #d884b4; }
.on-reserved { stroke: #4a3208; }
.hatched-ground { fill: #4a3208; }
.dotted-ground { fill: #0b3b2c; }
.crossed-ground { fill: #40203a; }
.lined-ground { fill: #38350c; }
""".strip()

_PATTERNS = """
<pattern id="hatched" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
<rect class="hatched-ground" width="5" height="5"/><rect width="1.8" height="5" fill="#e69f00"/></pattern>
<pattern id="dotted" width="5" height="5" patternUnits="userSpaceOnUse">\
<rect class="dotted-ground" width="5" height="5"/><circle cx="2.5" cy="2.5" r="1.3" fill="#009e73"/></pattern>
<pattern id="crossed" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
<rect class="crossed-ground" width="6" height="6"/>\
<path d="M0 3H6M3 0V6" stroke="#cc79a7" stroke-width="1.3"/></pattern>
<pattern id="lined" width="4" height="4" patternUnits="userSpaceOnUse">\
<rect class="lined-ground" width="4" height="4"/><rect width="4" height="1.4" fill="#a89b00"/></pattern>
""".strip()

_ROUNDED = {"package": 8, "numa-node": 6, "l3": 4, "core": 3, "thread": 2, "swatch": 2}
_ROUNDED |= dict.fromkeys(("device", "pcie-switch", "gpu-switch"), 4) | {"part": 2}
_INVISIBLE = frozenset(
    {"machine", "heading", "legend", "legend-entry", "numa-heading", "cores", "group", "memory", "memory-row"}
    | {"devices", "device-row", "parts"}
)


def draw(topology: NodeTopology, plan: NodePlan | None = None) -> str:
    """Return the SVG of a machine; with a plan, reserved and allocatable CPUs and memory are told apart.

    The same input gives the same text. Raises PlanError when the plan is for other CPUs than the machine has.
    """
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
    yield f"<style>{_STYLE}\n@media (prefers-color-scheme: dark) {{\n{_DARK_STYLE}\n}}</style>"
    yield f"<defs>{_PATTERNS}</defs>"
    yield from _box(picture.root)
    yield "</svg>"


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
    classes = [
        name
        for name, applies in (("bold", text.bold), ("muted", text.muted), ("on-reserved", on_reserved))
        if applies
    ]
    styled = f' class="{" ".join(classes)}"' if classes else ""
    anchor = f' text-anchor="{text.anchor}"' if text.anchor != "start" else ""
    return (
        f'<text x="{_number(text.x)}" y="{_number(text.y)}" font-size="{_number(text.size)}"{anchor}{styled}>'
        f"{_escaped(text.content)}</text>"
    )


def _escaped(text: str) -> str:
    """Escape for XML, with the control characters that XML 1.0 cannot hold replaced."""
    return escape("".join(character if _in_xml(character) else "\ufffd" for character in text))


def _in_xml(character: str) -> bool:
    code = ord(character)
    return character in "\t\n\r" or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
