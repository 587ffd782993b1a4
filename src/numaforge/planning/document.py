"""The plan as a JSON document, schema 1: the same bytes for the same plan, lossless."""

from typing import Any

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


def to_document(plan: NodePlan) -> dict[str, Any]:
    """Return the plan as JSON data: sets as cpulists, mappings by CPU with equal CPUs grouped."""
    return PLAN.encode(plan)


def from_document(document: object) -> NodePlan:
    """Return the plan in a document.

    Raises PlanError for another schema and for a missing, unknown or invalid field.
    """
    return PLAN.decode(document)


def dumps(plan: NodePlan) -> str:
    """Return the plan as text, which ends in a newline."""
    return PLAN.dumps(plan)


def loads(text: str) -> NodePlan:
    """Return the plan in a text; raises PlanError for text that is not a plan of this schema."""
    return PLAN.loads(text)


def saved_plan(machine: NodeTopology) -> NodePlan | None:
    """Return the plan saved on the host; None without one. Raises PlanError."""
    return loads(machine.previous_plan) if machine.previous_plan else None
