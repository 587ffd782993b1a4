"""What was measured on a machine, as it is kept there and as programs read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaforge.codec import NOTHING_ELSE, DocumentKind
from numaforge.errors import NumaforgeError
from numaforge.measure.kinds import KINDS, MeasuredKind

MEASURED_PATH = "/var/lib/numaforge/measured.json"
"""Where a node keeps what was measured on it last."""


class MeasurementError(NumaforgeError):
    """A measurement that was kept cannot be read, or one cannot be taken."""


@dataclass(frozen=True)
class Figure:
    """One thing that was measured: the median of its runs, the lowest and the highest, in the kind's unit.

    `limit` is what the link carries at most in that unit; None where the machine does not say.
    """

    __pydantic_config__ = NOTHING_ELSE

    kind: str
    place: str
    unit: str
    median: float
    lowest: float
    highest: float
    runs: int
    program: str
    limit: float | None = None

    @property
    def key(self) -> str:
        """What siblings have in common: the same thing, measured by the same program.

        The CPUs for pods, of which the worst is told, may be others on a sibling.
        """
        kind = self.of_kind
        where = self.place if kind is None or kind.steady else "the CPUs for pods"
        return f"{self.kind} | {where} | {self.program}"

    @property
    def of_kind(self) -> MeasuredKind | None:
        """Its kind; None for one that another version has measured."""
        return KINDS.get(self.kind)

    @property
    def share(self) -> float | None:
        """Which share of the limit it reaches."""
        return self.median / self.limit if self.limit else None


@dataclass(frozen=True)
class NotMeasured:
    """What was not measured, and why."""

    __pydantic_config__ = NOTHING_ELSE

    kind: str
    place: str
    why: str


@dataclass(frozen=True)
class OfSiblings:
    """What machines of the same kind have of a figure: the median of their medians, and how many they are."""

    __pydantic_config__ = NOTHING_ELSE

    median: float
    machines: int


@dataclass(frozen=True)
class Measurement:
    """One measurement of a machine. `make` is what its siblings share; `siblings` are by a figure's key.

    `plan` is the checksum of the plan that the node had, None where it had none. `in_use` is what spoke for
    work on the node meanwhile. `programs` are those that measured, with what they say of their version.
    """

    __pydantic_config__ = NOTHING_ELSE

    hostname: str | None
    make: str
    measured_at: str  # RFC 3339, the time of the node
    kernel: str | None
    boot_id: str | None
    plan: str | None
    in_use: tuple[str, ...]
    programs: Mapping[str, str]
    figures: tuple[Figure, ...]
    not_measured: tuple[NotMeasured, ...] = ()
    siblings: Mapping[str, OfSiblings] = field(default_factory=dict)


MEASUREMENT = DocumentKind(
    name="measurement",
    number=1,
    holds=Measurement,
    error=MeasurementError,
    remedy="measure the host again: numaforge measure INVENTORY --limit HOST",
)
