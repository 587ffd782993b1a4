"""The measurements that a node needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numaforge.reasons import Decision, Reasoned

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


@dataclass(frozen=True)
class MeasurePlan:
    """The share of its siblings' median that each of the node's figures must reach: 0.8."""

    least_share: float


def plan_measure(profile: NodeProfile) -> Reasoned[MeasurePlan | None]:
    """Return the share that the profile asks for, if any."""
    wish = profile.measure
    if wish.gate == "none":
        return Reasoned(None)
    share = Decision("measure.least_share", wish.least_share, profile.choice("measure.least_share"))
    return Reasoned(MeasurePlan(float(wish.least_share.rstrip("%")) / 100), (share,))
