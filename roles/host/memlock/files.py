"""Drop-ins of units that may pin as much memory as they want."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.file_content import PlannedFile
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.runtime import may_be_limited
from numaforge.roles.template import constant

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


TEMPLATES = {"rdma/memlock.conf.j2": constant()}


def memlock_path(unit: str) -> str:
    """Return the path of the drop-in that lets a unit pin as much memory as it wants."""
    return f"/etc/systemd/system/{unit}.d/92-numaforge-memlock.conf"


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the drop-in of each unit."""
    units = plan.rdma.host.memlock_units
    return tuple(PlannedFile(memlock_path(unit), "rdma", "rdma/memlock.conf.j2") for unit in units)


def paths(plan: NodePlan, machine: NodeTopology) -> tuple[str, ...]:
    """Return the path of the drop-in of each unit from which pods inherit limits."""
    return tuple(map(memlock_path, may_be_limited(machine.kubelet)))
