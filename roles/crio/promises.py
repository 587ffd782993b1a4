"""The configuration with which CRI-O was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.machine.topology.runtime import CRIO
from numaforge.roles.crio.files import CRIO_PATH
from numaforge.roles.crio.plan import HANDLER
from numaforge.roles.promise import Promise, Table, asks_where, require

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def runtime_handler(plan: NodePlan) -> Table:
    """The unit that must know the runtime class's handler."""
    return {HANDLER: CRIO} if plan.pod_tuning.annotations else {}


def _runtime_handler(node: VerifiedNode, name: str, expected: str) -> None:
    require(
        node.live.started_with(expected, CRIO_PATH),
        f"{expected} has not started since {CRIO_PATH} was written",
    )


PROMISES = (
    Promise(
        "runtime_handler",
        runtime_handler,
        _runtime_handler,
        units=lambda plan: runtime_handler(plan).values(),
        properties=("MainPID",),
        asks=asks_where(runtime_handler, "tell_limits", CRIO),
    ),
)
