"""A role's program for nodes, put together of its modules as one file."""

import re
from collections.abc import Iterable
from pathlib import Path

HOLDERS = Path(__file__).with_name("holders.py")
"""The module that programs which change GPUs begin with."""

_OURS = re.compile(r"^from (?:__future__|numaforge\S*) import (?:\([^)]*\)|.*)\n+", re.MULTILINE)


def program_source(modules: Iterable[Path]) -> str:
    """Return modules as one program, which imports nothing of ours."""
    texts = (module.read_text(encoding="utf-8") for module in modules)
    return "from __future__ import annotations\n\n" + _OURS.sub("", "\n\n".join(texts))
