"""The plan as a JSON document, schema 1: the same bytes for the same plan, lossless."""

from numaforge.lib.codec import DocumentKind
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.plan import NodePlan

PLAN = DocumentKind(
    name="plan",
    number=1,
    holds=NodePlan,
    error=PlanError,
    remedy="plan the host again with this version of numaforge",
)


to_document, from_document = PLAN.encode, PLAN.decode
"""A plan as JSON data, with sets as cpulists; PlanError for a missing, unknown or invalid field."""
dumps, loads = PLAN.dumps, PLAN.loads
"""A plan as text, which ends in a newline; PlanError for text that is not a plan of this schema."""


def saved_plan(machine: NodeTopology) -> NodePlan | None:
    """Return the plan saved on the host; None without one. Raises PlanError."""
    return loads(machine.previous_plan) if machine.previous_plan else None
