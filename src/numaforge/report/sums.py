"""Sizes rounded together, so that the shown parts add up to the shown sum."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Grain:
    """What sizes are rounded to: `per_unit` grains make one `unit` of `unit_bytes`."""

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
