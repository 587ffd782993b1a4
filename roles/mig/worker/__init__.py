"""The program that cuts GPUs on a node: the role's instances and these modules, sent as one file."""

from functools import cache
from pathlib import Path

from numaforge.node.program import HOLDERS, program_source

MODULES = ("instance", "worker/geometry", "worker/holders", "worker/reset", "worker/verbs")
_ROLE = Path(__file__).parent.parent


@cache
def source() -> str:
    """Return the program, which needs the standard library and pynvml alone."""
    return program_source([HOLDERS, *(_ROLE / f"{name}.py" for name in MODULES)])
