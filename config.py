"""pyinfra reads this before the inventory: let `inventories/lab` stand for `inventories/lab/inventory.py`."""

import os
import sys
from pathlib import Path

_started_as = sys.orig_argv
_expanded = [
    str(Path(argument, "inventory.py"))
    if Path(argument).is_dir() and Path(argument, "inventory.py").is_file()
    else argument
    for argument in _started_as
]
# pyinfra takes an inventory file, never a folder, and has parsed its arguments by now: start it once more.
if _expanded != _started_as:
    os.execv(sys.executable, [sys.executable, *_expanded[1:]])  # noqa: S606
