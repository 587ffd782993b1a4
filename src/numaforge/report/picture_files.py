"""Write a picture in the format of its file's suffix: SVG, or PNG and PDF with typst."""

from pathlib import PurePath
from typing import Any

from numaforge.lib.errors import NumaforgeError

_PIXELS_PER_INCH = 144.0  # twice the SVG's own size
_PAGE = b"""#set document(date: none)
#set page(width: auto, height: auto, margin: 0pt)
#image("picture.svg")
"""
_FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"format": "png", "ppi": _PIXELS_PER_INCH},
    ".pdf": {"format": "pdf"},
}


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
