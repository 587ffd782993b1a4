"""The program that cuts GPUs on a node: the role's instances and these modules, sent as one file."""

from functools import cache
from pathlib import Path

from numaforge.node.program import worker_source

MODULES = ("instance", "worker/geometry", "worker/reset", "worker/verbs")


@cache
def source() -> str:
    """Return the program, which needs only the standard library and pynvml."""
    return worker_source(Path(__file__).parent.parent, MODULES)
