"""What to measure, and how a pyinfra run receives it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

DATA = "numaforge_measure"
"""The host data with what to measure."""
MEASURED, KEPT = "measured", "kept"
"""The kinds of events with a new measurement of a host, and with its saved one."""


@dataclass(frozen=True)
class MeasureOrder:
    """What to measure: how long, how often, and whether on a node in use.

    `drained` are cordoned Nodes with only the pods that every drain leaves. `aligned` compares one program
    aligned and across NUMA nodes; its results are not stored.
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
    """Return pyinfra arguments with the host data of a measurement."""
    return ("--data", f"{DATA}={json.dumps(order)}")
