"""Machines as files: the ready ones of the package, and saved snapshots and topology documents."""

from typing import Any, TypeGuard

from numaforge.lib.errors import NumaforgeError, TopologyError
from numaforge.lib.given import parse_json, read_text
from numaforge.lib.resources import machine_dir
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import from_document
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology

NO_HOST = "is a ready machine, which has no host to log in to"
"""The error for the name of a ready machine where a host is needed."""
_OF_PLANS = {"cpus", "memory", "decisions"}  # keys that only plans have together


def ready_machines() -> tuple[str, ...]:
    """Return the names of the machines to try commands with."""
    return tuple(sorted(path.stem for path in machine_dir().glob("*.json")))


def ready_machine(name: str) -> NodeTopology:
    """Return a ready machine. Raises TopologyError for an unknown name."""
    if name not in ready_machines():
        raise TopologyError(
            f"there is no ready machine {name!r}", remedy=f"name one of {', '.join(ready_machines())}"
        )
    return from_document(parse_json(read_text(machine_dir() / f"{name}.json", error=TopologyError)))


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
    return isinstance(document, dict) and document.keys() >= _OF_PLANS
