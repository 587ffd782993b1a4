"""Generated parts of the pages: each stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

from __future__ import annotations


def renewed(text: str, name: str, content: str) -> str:
    """Return a page with what is between the comments of a name replaced, each on a line of its own.

    Raises ValueError where the page does not have them once.
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, begun, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not (begun and ended) or begin in rest or end in before + after:
        raise ValueError(f"the page does not have {begin.strip()} and {end} once, in this order")
    return "".join((before, begin, content.rstrip("\n"), "\n", end, after))
