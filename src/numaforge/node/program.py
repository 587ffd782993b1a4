"""Programs for nodes, assembled from modules: a role's worker, and the look at holders of a device."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_OURS = re.compile(r"^from (?:__future__|numaforge\S*) import (?:\([^)]*\)|.*)\n+", re.MULTILINE)
_NODE = Path(__file__).parent
_PROCESSES = (_NODE.parent / "lib/system_units.py", _NODE / "processes.py")
_OF_EVERY_WORKER = (*_PROCESSES, _NODE / "holders.py", _NODE / "worker.py")


def worker_source(role: Path, modules: Iterable[str]) -> str:
    """Return the worker of the role in a folder: the modules that all workers share, and its own."""
    return program_source([*_OF_EVERY_WORKER, *(role / f"{name}.py" for name in modules)])


@cache
def holders_source() -> str:
    """Return the program that defines `tell_holders`, for `tell_holders` in holders.sh."""
    return program_source(_PROCESSES)


def program_source(modules: Iterable[Path]) -> str:
    """Return modules as one program without imports of numaforge."""
    texts = (module.read_text(encoding="utf-8") for module in modules)
    return "from __future__ import annotations\n\n" + _OURS.sub("", "\n\n".join(texts))
