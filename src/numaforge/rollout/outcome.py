"""The settings, progress and outcome of one node's roll-out."""

from dataclasses import dataclass, field

from numaforge.rollout.budget import Budget
from numaforge.rollout.drain import DrainSettings
from numaforge.rollout.gate import GateSettings
from numaforge.rollout.record import Ending


@dataclass(frozen=True)
class NodeSettings:
    """How one node is changed; `include_cordoned` also takes cordoned nodes, and leaves them cordoned."""

    budget: Budget = field(default_factory=Budget)
    drain: DrainSettings = field(default_factory=DrainSettings)
    gate: GateSettings = field(default_factory=GateSettings)
    include_cordoned: bool = False
    slot_timeout: float = 3600.0
    maintenance_timeout: float = 0.0
    unreachable_timeout: float = 900.0


@dataclass(frozen=True)
class Outcome:
    """The ending of a node's roll-out, and the reason; `details` are lines such as blockers or mismatches."""

    ending: Ending
    reason: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """A node's progress, for people and programs: its phase, and what it waits for."""

    node: str
    phase: str
    waits_for: tuple[str, ...] = ()
