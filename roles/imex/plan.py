"""Who runs IMEX on a tray, and with which nodes.

Sources: NVIDIA's IMEX guide (config.cfg, nodes_config.cfg); dra-driver-nvidia-gpu, prerequisites and
proposal 0001 (who runs the daemon).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Reasoned, Reasons

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.profile import NodeProfile

SUBJECT = "imex.mode"
_TWO_DAEMONS = (
    "nvidia-imex.service is enabled, and the DRA driver for ComputeDomains starts a daemon of its own, which "
    "is never ready beside it: set imex.mode driver-managed, or host-managed (NG310)"
)


@dataclass(frozen=True)
class ImexPlan:
    """What runs IMEX; `mode` None: unchanged. `socket` is its command socket, where it has one."""

    mode: Literal["driver-managed", "host-managed", "bare"] | None = None
    nodes: tuple[str, ...] = ()
    socket: str | None = None


def plan_imex(machine: NodeTopology, profile: NodeProfile) -> Reasoned[ImexPlan]:
    """Return who runs IMEX; raises PlanError for a host without it, and where a second daemon would run."""
    wish, install, reasons = profile.imex, machine.nvidia_install, Reasons()
    if wish.mode is None:
        starts = install is not None and install.imex_service == "enabled" and install.imex_commands is False
        if install and install.compute_domains and starts:
            reasons.notice("imex-two-daemons", _TWO_DAEMONS)
        return reasons.of(ImexPlan())
    looked = install is not None and install.compute_domains is not None
    if looked and install is not None and install.imex_service is None:
        raise PlanError(
            f"is {wish.mode}, and nvidia-imex is not installed",
            where=SUBJECT,
            remedy="install nvidia-imex of exactly the driver's version, or leave imex out",
        )
    if wish.mode == "bare" and install is not None and install.compute_domains:
        raise PlanError(
            "is bare, and the DRA driver for ComputeDomains is here, which starts a daemon of its own",
            where=SUBJECT,
            remedy="set driver-managed, or host-managed, with the DRA driver's gate HostManagedIMEXDaemon",
        )
    plan = ImexPlan(wish.mode, wish.nodes, wish.socket if wish.mode == "host-managed" else None)
    reasons.decide(SUBJECT, wish.mode, profile.choice(SUBJECT))
    if plan.nodes:
        reasons.decide("imex.nodes", ", ".join(plan.nodes), profile.choice("imex.nodes"))
    return reasons.of(plan)
