"""Each role's part of what a node compares with its plan by itself, and of its metrics.

A role has them in its `watched.py`: `compared(plan)` is what a node holds itself to, `families(plan)` its
metrics; it may have one of them. The node carries them out without numaforge, and each metric gets the label
`node` (the role `watch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Held(StrEnum):
    """How a kernel file is compared with the plan."""

    IS = "is"  # the words of its first line; in `always [madvise] never` the bracketed one
    LEAST = "least"  # each of its numbers is at least the plan's
    HAS = "has"  # the plan's word is one of them
    LINES = "lines"  # it has this many


@dataclass(frozen=True)
class Compared:
    """Files of the kernel that say the same: one for each of the `cpus`, which "{}" in the path stands for.

    `what` is the label by which its drift is told; several may share one. A file that need not be there is
    `optional`; what any other one says is unknown while it cannot be read.
    """

    what: str
    path: str
    wanted: str
    held: Held = Held.IS
    cpus: frozenset[int] | None = None
    optional: bool = False


@dataclass(frozen=True)
class Stated:
    """A sample computed from the plan alone."""

    labels: Mapping[str, str] = field(default_factory=dict)
    value: int | float = 1


@dataclass(frozen=True)
class Measured:
    """A sample whose value is the first line of a file, a number."""

    labels: Mapping[str, str]
    path: str


@dataclass(frozen=True)
class Counted:
    """How many CPUs have each text in their file: a sample for each text, which is the label `label`."""

    label: str
    path: str
    cpus: frozenset[int]


@dataclass(frozen=True)
class Stalled:
    """Seconds for which tasks have waited, from the kernel's pressure file: one sample per `kind`."""

    labels: Mapping[str, str]
    path: str


@dataclass(frozen=True)
class Family:
    """The samples of one metric; `kind` is Prometheus' type: gauge or counter."""

    name: str
    kind: str
    help: str
    samples: tuple[Stated | Measured | Counted | Stalled, ...]
