"""The node watches itself; the units that we have written, verified elsewhere, include its timer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.promise import Promise, Table, asks_names, require
from numaforge.roles.watch.files import PERIOD_SECONDS

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode

_MISSED_RUNS = 5


def watches(plan: NodePlan) -> Table:
    """The maximum age of the metrics file, in seconds, by its path."""
    return {plan.watch.metrics: _MISSED_RUNS * PERIOD_SECONDS} if plan.watch else {}


def _watch(node: VerifiedNode, name: str, expected: int) -> None:
    age = node.live.of("watch").get(name)
    require(age is not None, "does not exist")
    require(int(age or 0) <= expected, f"written {age} s ago, planned every {expected // _MISSED_RUNS} s")


PROMISES = (Promise("watch", watches, _watch, asks=asks_names("tell_watch", watches)),)
