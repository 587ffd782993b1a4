"""Interpret a snapshot: what is there, with everything unknown kept as None."""

from __future__ import annotations

from numaforge.topology.document import from_document, to_document
from numaforge.topology.read import read_topology

__all__ = ["from_document", "read_topology", "to_document"]
