"""A role's program for nodes, assembled from its modules into one file."""

import re
from collections.abc import Iterable
from pathlib import Path

_OURS = re.compile(r"^from (?:__future__|numaforge\S*) import (?:\([^)]*\)|.*)\n+", re.MULTILINE)
_OF_EVERY_WORKER = [Path(__file__).with_name(name) for name in ("holders.py", "worker.py")]


def worker_source(role: Path, modules: Iterable[str]) -> str:
    """Return the worker of the role in a folder: what all workers have, and modules of its own."""
    return program_source([*_OF_EVERY_WORKER, *(role / f"{name}.py" for name in modules)])


def program_source(modules: Iterable[Path]) -> str:
    """Return modules as one program without imports of numaforge."""
    texts = (module.read_text(encoding="utf-8") for module in modules)
    return "from __future__ import annotations\n\n" + _OURS.sub("", "\n\n".join(texts))
