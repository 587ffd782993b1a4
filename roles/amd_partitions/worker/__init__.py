"""The program that sets the modes of AMD's GPUs on a node, sent as one file."""

from functools import cache
from pathlib import Path

from numaforge.node.program import HOLDERS, program_source

MODULES = ("instance", "worker/driver", "worker/verbs")
_ROLE = Path(__file__).parent.parent


@cache
def source() -> str:
    """Return the program, which needs the standard library alone."""
    return program_source([HOLDERS, *(_ROLE / f"{name}.py" for name in MODULES)])
