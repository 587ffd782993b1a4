"""The wording of sizes, counts and lists that tables and pictures share."""

import textwrap
from collections.abc import Iterable
from fractions import Fraction
from math import ceil

from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.lib.quantity import counted
from numaforge.report.printable import in_one_line, spaced, with_whole_commands
from numaforge.report.terminal import style

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MOST = 2**63  # the bound of a Kubernetes quantity
ELLIPSIS = "…"


def human_bytes(count: int | None) -> str:
    """Return a size in three or four significant digits: `512 MiB`, `1.9 GiB`; `unknown` for None."""
    if count is None:
        return "unknown"
    if count >= _MOST:
        return f"{_MOST >> 50} PiB or more"
    size, unit = float(count), 0
    while round(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    rounded = f"{size:.0f}" if size >= 100 else f"{size:.1f}".removesuffix(".0")
    return f"{rounded} {_UNITS[unit]}"


def amount_in_words(resource: str, amount: Fraction) -> str:
    """Return what a pod asks for of a resource: `8 CPUs`, `32 GiB memory`, `4 nvidia.com/gpu`."""
    whole, millis = divmod(ceil(amount * 1000), 1000)
    number = f"{whole}.{millis:03d}".rstrip("0").rstrip(".") if millis else str(whole)
    if resource == "cpu":
        return f"{number} CPU{'' if number == '1' else 's'}"
    if resource in ("memory", "ephemeral-storage") or in_pages(resource):
        return f"{human_bytes(ceil(amount))} {resource}"
    return f"{number} {resource}"


def wrapped(text: str, width: int, indent: str = "  ", most: int | None = None) -> list[str]:
    """Return a text wrapped to `width`, in at most `most` lines; names, paths and `commands` stay whole."""
    lines = textwrap.wrap(
        with_whole_commands(in_one_line(text)),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        max_lines=most,
        placeholder=f" {ELLIPSIS}",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [spaced(line) for line in lines]


def styled_lines(
    text: str, width: int, *, most: int | None = None, fg: str | None = None, bold: bool | None = None
) -> list[str]:
    """Return a text wrapped to `width`, in at most `most` lines, each in a style."""
    return [style(line, fg=fg, bold=bold) for line in wrapped(text, width, "", most)]


def some_of(names: Iterable[str], most: int = 3) -> str:
    """Return a list of names that stays short: `a, b, c and 4 others`."""
    listed = list(names)
    if len(listed) <= most:
        return ", ".join(listed)
    return f"{', '.join(listed[:most])} and {counted(len(listed) - most, 'other')}"


def wrapped_cpulist(cpulist: str, width: int) -> tuple[str, ...]:
    """Return a cpulist in lines of at most `width`, broken after commas."""
    lines = [""]
    for part in cpulist.split(","):
        separator = "," if lines[-1] else ""
        if lines[-1] and len(lines[-1]) + 1 + len(part) >= width:
            lines[-1] += separator
            lines.append(part)
        else:
            lines[-1] += separator + part
    return tuple(filter(None, lines))


def joined(phrases: Iterable[str]) -> str:
    """Return phrases with a middle dot between them."""
    return " · ".join(phrase for phrase in phrases if phrase)
