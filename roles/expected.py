"""What a plan expects of the kernel's files, role by role in the order of a maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from numaforge.roles import role
from numaforge.roles.amd_partitions import expected as amd_partitions
from numaforge.roles.cpus.slices import expected as slices
from numaforge.roles.expectation import Expected
from numaforge.roles.hugepages import expected as hugepages
from numaforge.roles.interrupts import expected as interrupts
from numaforge.roles.kernel_cmdline import expected as kernel_cmdline
from numaforge.roles.kernel_values import expected as kernel_values
from numaforge.roles.role import Role

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

EXPECTED: tuple[tuple[Role, Callable[[NodePlan], Iterable[Expected]]], ...] = (
    (role.kernel_cmdline, kernel_cmdline.expected),
    (role.kernel_values, kernel_values.expected),
    (role.interrupts, interrupts.expected),
    (role.slices, slices.expected),
    (role.hugepages, hugepages.expected),
    (role.amd_partitions, amd_partitions.expected),
)


def all_expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield every row of a plan."""
    for _, expected in EXPECTED:
        yield from expected(plan)
