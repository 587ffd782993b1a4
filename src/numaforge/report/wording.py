"""The wording of sizes, counts and lists that tables and pictures share."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
        if lines[-1] and len(lines[-1]) + 1 + len(part) >= width:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] += f",{part}" if lines[-1] else part
    return tuple(filter(None, lines))


def joined(phrases: Iterable[str]) -> str:
    """Return phrases with a middle dot between them."""
    return " · ".join(phrase for phrase in phrases if phrase)


@dataclass(frozen=True)
class Grain:
    """What sizes are rounded to, so that parts add up: `per_unit` grains make a `unit` of `unit_bytes`."""

    unit: str
    unit_bytes: int
    per_unit: int

    @classmethod
    def of(cls, largest: int) -> "Grain":
        """Return tenths of GiB for sizes up to `largest` bytes, and whole MiB where that is below 16 GiB."""
        return cls("GiB", 2**30, 10) if largest >= 16 * 2**30 else cls("MiB", 2**20, 1)

    def rounded(self, size: int) -> int:
        return (2 * size * self.per_unit + self.unit_bytes) // (2 * self.unit_bytes)

    def parts(self, sizes: Sequence[int]) -> list[int]:
        """Return sizes in grains: each off by less than one, together the rounded sum (largest remainder)."""
        exact = [divmod(size * self.per_unit, self.unit_bytes) for size in sizes]
        missing = self.rounded(sum(sizes)) - sum(grains for grains, _ in exact)
        raised = sorted(range(len(sizes)), key=lambda place: (-exact[place][1], place))[:missing]
        return [grains + (index in raised) for index, (grains, _) in enumerate(exact)]

    def shown(self, grains: int) -> str:
        """Return a number of grains with its unit: `1007.4 GiB`, `0 GiB`."""
        return f"{self.number(grains)} {self.unit}"

    def number(self, grains: int) -> str:
        """Return a number of grains without its unit: `1007.4`, `0`."""
        return f"{grains / self.per_unit:.{1 if grains and self.per_unit > 1 else 0}f}"
