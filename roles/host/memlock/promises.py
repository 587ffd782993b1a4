"""What units may pin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.promise import Promise, Table, asks_names, require_equal

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def memlock(plan: NodePlan) -> Table:
    """Each unit that may pin as much memory as it wants."""
    return dict.fromkeys(plan.rdma.host.memlock_units, "infinity")


def _memlock(node: VerifiedNode, name: str, expected: str) -> None:
    require_equal(node.live.of("memlock").get(name), expected)


PROMISES = (
    Promise(
        "memlock",
        memlock,
        _memlock,
        units=memlock,
        properties=("LimitMEMLOCK",),
        asks=asks_names("tell_memlock", memlock),
    ),
)
