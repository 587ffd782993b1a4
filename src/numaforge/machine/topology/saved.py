"""Saved machines: a snapshot, or the topology document made from one."""

from typing import Any, TypeGuard

from numaforge.lib.errors import NumaforgeError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import from_document
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology

_OF_PLANS = {"cpus", "memory", "decisions"}  # keys that only plans have together


def saved_machine(document: object) -> NodeTopology:
    """Return the machine in a snapshot or in a topology document. Raises NumaforgeError for anything else."""
    if isinstance(document, dict) and "packages" in document:
        return from_document(document)
    if is_plan(document):
        raise NumaforgeError(
            "is a plan, not a machine",
            remedy="give the snapshot that it was made of; admit, fit and check take it with --plan",
        )
    return read_topology(Snapshot.from_document(document))


def is_plan(document: object) -> TypeGuard[dict[str, Any]]:
    """Say whether a document is a plan."""
    return isinstance(document, dict) and document.keys() >= _OF_PLANS
