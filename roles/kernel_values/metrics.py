"""The governors of CPUs, as the node's watch reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.kernel_values.paths import GOVERNOR
from numaforge.roles.metric import Counted, Family

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return the governors of the online CPUs; a machine without frequency scaling has none."""
    return (
        Family(
            "numaforge_cpu_governor",
            "gauge",
            "CPUs with this frequency governor.",
            (Counted("governor", GOVERNOR, plan.cpus.online),),
        ),
    )
