"""Rules about a machine and the plan saved on it: each role has its own in `drift.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from numaforge.findings.engine import Seen
from numaforge.findings.finding import Rule
from numaforge.machine.topology.model import NodeTopology

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

APPLY = "`numaforge apply` brings the host back to its plan; plan it again where the change was wanted"


class Concern(NamedTuple):
    """The plans that a rule applies to: the words of its scope, and the answer for all others."""

    plans: str
    of: Callable[[NodePlan], bool]
    otherwise: str


@dataclass(frozen=True)
class DriftRule(Rule):
    """A rule about a machine and its plan, of all or a `concern`; `look` yields what is not as planned."""

    look: Callable[[NodeTopology, NodePlan], Iterable[Seen]]
    concern: Concern | None = None
    remedy: str = APPLY
