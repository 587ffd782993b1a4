"""What was measured on a machine, as stored there and as programs read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from numaforge.fleet.measure.kinds import KINDS, MeasuredKind
from numaforge.lib.codec import DocumentKind, KnownKeysOnly
from numaforge.lib.errors import NumaforgeError

MEASURED_PATH = "/var/lib/numaforge/measured.json"
"""Where a node stores its latest measurement."""


class MeasurementError(NumaforgeError):
    """A stored measurement cannot be read, or a new one cannot be taken."""


@dataclass(frozen=True)
class Figure(KnownKeysOnly):
    """One thing that was measured: the median of its runs, the lowest and the highest, in the kind's unit.

    `limit` is the most that the link carries, in that unit; None where the link is unknown.
    """

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
        """What siblings share: the thing and its program; for an unsteady kind, whatever CPUs pods have."""
        kind = self.of_kind
        where = self.place if kind is None or kind.steady else "the CPUs for pods"
        return f"{self.kind} | {where} | {self.program}"

    @property
    def of_kind(self) -> MeasuredKind | None:
        """Its kind; None for a kind of another version."""
        return KINDS.get(self.kind)

    @property
    def share(self) -> float | None:
        """The share of the limit that it reaches."""
        return self.median / self.limit if self.limit else None


@dataclass(frozen=True)
class NotMeasured(KnownKeysOnly):
    """What was not measured, and why."""

    kind: str
    place: str
    why: str


@dataclass(frozen=True)
class OfSiblings(KnownKeysOnly):
    """A figure across machines of the same make: the median of their medians, and their number."""

    median: float
    machines: int


@dataclass(frozen=True)
class Measurement(KnownKeysOnly):
    """One measurement of a machine. `make` is what its siblings share; `siblings` are by a figure's key.

    `plan` is the checksum of the node's plan, None without one. `in_use` has the signs of work on the node
    meanwhile. `programs` are those that measured, with what they say of their version.
    """

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
    remedy="measure the host again: `numaforge measure INVENTORY --limit HOST`",
)
