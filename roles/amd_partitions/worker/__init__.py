"""The program that sets the modes of AMD's GPUs on a node, sent as one file."""

from functools import cache
from pathlib import Path

from numaforge.node.program import worker_source

MODULES = ("instance", "worker/verbs")


@cache
def source() -> str:
    """Return the program, which needs only the standard library."""
    return worker_source(Path(__file__).parent.parent, MODULES)
