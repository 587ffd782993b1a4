"""The machine as a plan makes it, role by role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles import ROLES

if TYPE_CHECKING:
    from numaforge.roles.node import NodePlan
    from numaforge.topology.model import NodeTopology


def machine_as_planned(machine: NodeTopology, plan: NodePlan) -> NodeTopology:
    """Return a machine, found before or after its plan was carried out, as it is with that plan."""
    for role in ROLES:
        if change := getattr(role.plan, "as_planned", None):  # few roles have it
            machine = change(machine, plan)
    return machine
