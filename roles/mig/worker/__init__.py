"""The program that cuts GPUs on a node: the role's instances and these modules, sent as one file."""

import re
from functools import cache
from pathlib import Path

MODULES = ("instance", "worker/geometry", "worker/holders", "worker/reset", "worker/verbs")
_ROLE = Path(__file__).parent.parent
_OURS = re.compile(r"^from (?:__future__|numaforge\S*) import (?:\([^)]*\)|.*)\n+", re.MULTILINE)


@cache
def source() -> str:
    """Return the program, which needs the standard library and pynvml alone."""
    texts = ((_ROLE / f"{name}.py").read_text(encoding="utf-8") for name in MODULES)
    return "from __future__ import annotations\n\n" + _OURS.sub("", "\n\n".join(texts))
