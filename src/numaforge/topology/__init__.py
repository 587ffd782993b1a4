"""Interpret a snapshot: what is there, with everything unknown kept as None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numaforge.topology.document import from_document, to_document
    from numaforge.topology.read import read_topology

__all__ = ["from_document", "read_topology", "to_document"]


def __getattr__(name: str) -> Any:
    # Loaded at first use: importing the model alone does not import the readers.
    if name == "read_topology":
        from numaforge.topology import read

        return read.read_topology
    if name in __all__:
        from numaforge.topology import document

        return getattr(document, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
