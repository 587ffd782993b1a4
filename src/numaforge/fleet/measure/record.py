"""What can be measured, what is to be, and what was measured on a machine, as stored there."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from numaforge.lib.codec import DocumentKind, KnownKeysOnly
from numaforge.lib.errors import NumaforgeError

MEASURED_PATH = "/var/lib/numaforge/measured.json"  # where a node stores its latest measurement


class MeasurementError(NumaforgeError):
    """A stored measurement cannot be read, or a new one cannot be taken."""


class MeasuredKind(NamedTuple):
    """One kind of figure; more than `most` is rejected.

    One that is not `steady` is the worst moment of a run: only ten times the siblings' figure counts.
    """

    name: str
    title: str
    unit: str
    most: float
    more_is_better: bool = True
    steady: bool = True


_ROWS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
KINDS = {row["name"]: MeasuredKind(**row) for row in _ROWS}


@dataclass(frozen=True)
class Figure(KnownKeysOnly):
    """One thing that was measured, of several runs, in the kind's unit; `limit` is what the link carries."""

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
    """One measurement of a machine; `make` is what its siblings share, `siblings` are by a figure's key.

    `plan` is the checksum of the node's plan, None without one. `in_use` has the signs of work on the node.
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

DATA = "numaforge_measure"  # the host data with what to measure
MEASURED, KEPT = "measured", "kept"
"""The kinds of events with a new measurement of a host, and with its saved one."""


@dataclass(frozen=True)
class MeasureOrder:
    """What to measure, `in_use`, or on `drained` Nodes; what is measured `aligned` and not is not stored."""

    seconds: int = 3
    runs: int = 3
    in_use: bool = False
    aligned: bool = False
    drained: tuple[str, ...] = ()

    def data(self) -> tuple[str, ...]:
        """Return it as arguments of pyinfra."""
        return of_data(asdict(self))


def of_data(order: Mapping[str, Any]) -> tuple[str, ...]:
    """Return pyinfra arguments with the host data of a measurement."""
    return ("--data", f"{DATA}={json.dumps(order)}")
