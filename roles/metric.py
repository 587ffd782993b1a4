"""The metrics that a node exports by itself: a role has its own in `metrics.py`.

The node carries them out without numaforge, and each metric gets the label `node` (the role `watch`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Stated:
    """A sample computed from the plan alone."""

    labels: Mapping[str, str] = field(default_factory=dict)
    value: int | float = 1


class Measured(NamedTuple):
    """A sample whose value is the first line of a file, a number."""

    labels: Mapping[str, str]
    path: str


class Counted(NamedTuple):
    """How many CPUs have each text in their file: a sample for each text, which is the label `label`."""

    label: str
    path: str
    cpus: frozenset[int]


class Stalled(NamedTuple):
    """Seconds for which tasks have waited, from the kernel's pressure file: one sample per `kind`."""

    labels: Mapping[str, str]
    path: str


class Family(NamedTuple):
    """The samples of one metric; `kind` is Prometheus' type: gauge or counter."""

    name: str
    kind: str
    help: str
    samples: tuple[Stated | Measured | Counted | Stalled, ...]
