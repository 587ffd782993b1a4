"""What to measure, and how a pyinfra run receives it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

DATA = "numaforge_measure"
"""The host data with what to measure."""
MEASURED, KEPT = "measured", "kept"
"""The kinds of the events that tell what was measured on a host, and what it keeps."""


@dataclass(frozen=True)
class MeasureOrder:
    """What is measured: how long, how often, and whether on a node that is in use.

    `drained` are cordoned Nodes whose only pods are those that every drain leaves. `aligned` compares one
    program aligned with the same one across NUMA nodes; its results are not stored.
    """

    seconds: int = 3
    runs: int = 3
    in_use: bool = False
    aligned: bool = False
    drained: tuple[str, ...] = ()

    def data(self) -> tuple[str, ...]:
        """Return it as arguments of pyinfra."""
        return of_data(asdict(self))


def of_data(order: Mapping[str, Any]) -> tuple[str, ...]:
    """Return arguments of pyinfra that say the host data of a measurement."""
    return ("--data", f"{DATA}={json.dumps(order)}")
