"""What a node has to have been measured at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numaforge.reasons import Decision, Reasoned
from numaforge.roles.role import Turn

if TYPE_CHECKING:
    from numaforge.roles.node import Decisions, NodeProfile
    from numaforge.topology.model import MachineShape

TURN = Turn.KIND
NEEDS: tuple[str, ...] = ()


@dataclass(frozen=True)
class MeasurePlan:
    """The share of its siblings' median that each figure of the node has to reach: 0.8."""

    least_share: float


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What a plan says of measuring; None: a node goes back into service without it."""

    measure: MeasurePlan | None = None


def decide(machine: MachineShape, profile: NodeProfile, decided: Decisions) -> Reasoned[Decided]:
    """Return what the profile asks for."""
    wish = profile.measure
    if wish.gate == "none":
        return Reasoned(Decided())
    share = Decision("measure.least_share", wish.least_share, profile.choice("measure.least_share"))
    return Reasoned(Decided(measure=MeasurePlan(float(wish.least_share.rstrip("%")) / 100)), (share,))
