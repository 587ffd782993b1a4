"""What units may pin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge import shell
from numaforge.verification.promise import Promise, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.roles.node import NodePlan
    from numaforge.verification.live import VerifiedNode


def memlock(plan: NodePlan) -> Table:
    """Each unit that may pin as much memory as it wants."""
    return dict.fromkeys(plan.rdma.host.memlock_units, "infinity")


def _asks(plan: NodePlan) -> Iterator[str]:
    """Yield what is asked of units."""
    if units := plan.rdma.host.memlock_units:
        yield shell.call("tell_memlock", units)


def _memlock(node: VerifiedNode, name: str, expected: str) -> None:
    assert node.live.of("memlock").get(name) == expected


PROMISES = (Promise("memlock", memlock, _memlock, asks=_asks),)
