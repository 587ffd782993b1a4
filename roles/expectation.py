"""The form of what a plan expects of the kernel's files: one row for each value, for all that compare it.

A role has its rows in `expected.py`, all of them are listed in `roles/expected.py`. Verification, the node's
watch and an audit read the same rows; a maintenance sets those that do not hold.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from numaforge.lib.codec import CpuSet
from numaforge.lib.cpulist import format_cpulist, format_cpumask, parse_cpulist
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import digits


class Comparison(StrEnum):
    """How a file's text is compared with the planned value."""

    IS = "is"  # the words of its first line; in `always [madvise] never` the bracketed one
    LEAST = "least"  # the number is at least the plan's; what is not a number is left alone
    HAS = "has"  # the plan's word is one of them
    LINES = "lines"  # it has this many, such as the header of a table alone
    MASK = "mask"  # its mask has exactly the CPUs of the plan's cpulist
    WITHIN = "within"  # its cpulist names only CPUs of the plan's


_SHOWN = 4


@dataclass(frozen=True)
class Difference:
    """What was found that is not as expected, None where a file was not found.

    `places` are the CPUs, as a cpulist, or the numbered files; "" for a single file.
    """

    found: str | None
    path: str
    places: str = ""

    def __str__(self) -> str:
        found = "absent" if self.found is None else self.found or "empty"
        return f"{found} on {self.places}" if self.places else found


@dataclass(frozen=True)
class Expected:
    """Files of the kernel with the same planned value: one for each of the `cpus`, which "{}" stands for.

    A path may have one "*", for files that the kernel numbers. `what` is the label of their drift; several
    rows may share one. A file that need not exist is `optional`; any other that cannot be read is unknown.
    """

    what: str
    path: str
    value: str
    comparison: Comparison = Comparison.IS
    cpus: CpuSet | None = None
    optional: bool = False

    @property
    def pattern(self) -> str:
        """The path with a pattern of the shell for its CPUs: `/sys/devices/system/cpu/cpu[0-9]*/online`."""
        return self.path.replace("{}", "[0-9]*")

    @property
    def text(self) -> str:
        """The planned value as a node's shell compares it: a mask in hex digits for cpulists of masks."""
        if self.comparison is Comparison.MASK:
            return format_cpumask(parse_cpulist(self.value))
        return " ".join(self.value.split())

    def paths(self) -> tuple[str, ...]:
        """Return the path of each file; one with a "*" as it is."""
        if self.cpus is None:
            return (self.path,)
        return tuple(self.path.replace("{}", str(cpu)) for cpu in sorted(self.cpus))

    def holds(self, text: str | None) -> bool:
        """Whether a file with this text is as expected; False for one that does not exist."""
        if text is None:
            return False
        words = text.partition("\n")[0].split()
        match self.comparison:
            case Comparison.IS:
                return is_value(text, self.value)
            case Comparison.LEAST:
                number, least = digits(" ".join(words)), digits(self.value)
                return number is None or least is None or number >= least
            case Comparison.HAS:
                return self.value in words
            case Comparison.LINES:
                return len(text.splitlines()) == int(self.value)
            case Comparison.MASK:
                return _cpus_of_mask("".join(words)) == parse_cpulist(self.value)
            case Comparison.WITHIN:
                return bool(words) and _within("".join(words), parse_cpulist(self.value))

    def differences(self, texts: Mapping[str, str]) -> list[Difference]:
        """Return what differs of these texts, by path; files with the same text are one difference."""
        places: dict[str | None, list[str]] = {}
        for place, path in self._places(texts):
            text = texts.get(path)
            if not self.holds(text) and not (text is None and self.optional):
                places.setdefault(None if text is None else self._found(text), []).append(place)
        return [Difference(found, self._shown_path(at), self._named(at)) for found, at in places.items()]

    def _places(self, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield each file: its CPU, or what the "*" stands for, and its path."""
        if "*" in self.path:
            pattern = re.compile(re.escape(self.path).replace(r"\*", "([^/]+)"))
            yield from ((match[1], path) for path in texts if (match := pattern.fullmatch(path)))
        elif self.cpus is None:
            yield "", self.path
        else:
            yield from ((str(cpu), self.path.replace("{}", str(cpu))) for cpu in sorted(self.cpus))

    def _shown_path(self, places: Sequence[str]) -> str:
        return self.path.replace("{}", places[0] if len(places) == 1 else "*")

    def _named(self, places: Sequence[str]) -> str:
        if self.cpus is not None:
            return f"{'CPUs' if len(places) > 1 else 'CPU'} {format_cpulist(frozenset(map(int, places)))}"
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        return ", ".join(places[:_SHOWN]) + more

    def _found(self, text: str) -> str:
        """Return what of a text is compared, in one line."""
        lines = text.splitlines() or [""]
        if self.comparison is Comparison.LINES:
            return ", ".join(line.split()[0] for line in lines[1:] if line.strip())
        if self.comparison is Comparison.HAS:
            key = self.value.partition("=")[0]
            same = [word for word in lines[0].split() if word.partition("=")[0] == key]
            return " ".join(same) or "absent"
        if self.comparison is Comparison.MASK and (cpus := _cpus_of_mask(lines[0])) is not None:
            return f"CPUs {format_cpulist(cpus)}" if cpus else "no CPUs"
        return " ".join(lines[0].split())

    def __str__(self) -> str:
        match self.comparison:
            case Comparison.LEAST:
                return f"at least {self.value}"
            case Comparison.MASK | Comparison.WITHIN:
                return f"CPUs {self.value}" if self.value else "no CPUs"
            case Comparison.LINES:
                return "none"
            case _:
                return self.value


def is_value(text: str | None, value: str) -> bool:
    """Whether the first line of a file has a value; accepts `[chosen] other` and odd spacing."""
    if text is None:
        return False
    words = text.partition("\n")[0].split()
    return f"[{value}]" in words or words == value.split()


def _cpus_of_mask(mask: str) -> CpuSet | None:
    """Return the CPUs of a mask such as "ff,00000003"; None for what is no mask."""
    try:
        bits = int(mask.replace(",", ""), 16)
    except ValueError:
        return None
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def _within(cpulist: str, planned: CpuSet) -> bool:
    try:
        return parse_cpulist(cpulist) <= planned
    except NumaforgeError:
        return False
