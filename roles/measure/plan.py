"""The measurements that a node needs."""

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
    """The share of its siblings' median that each of the node's figures must reach: 0.8."""

    least_share: float


@dataclass(frozen=True, kw_only=True)
class Decided:
    """The measurements required by a plan; None: a node goes back into service without any."""

    measure: MeasurePlan | None = None


def decide(machine: MachineShape, profile: NodeProfile, decided: Decisions) -> Reasoned[Decided]:
    """Return the share that the profile asks for, if any."""
    wish = profile.measure
    if wish.gate == "none":
        return Reasoned(Decided())
    share = Decision("measure.least_share", wish.least_share, profile.choice("measure.least_share"))
    return Reasoned(Decided(measure=MeasurePlan(float(wish.least_share.rstrip("%")) / 100)), (share,))
