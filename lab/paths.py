"""The lab's folders: rebuildable files are in the cache, running labs in the state directory."""

from __future__ import annotations

import os
from pathlib import Path

LAB = Path(__file__).resolve().parent
REPOSITORY = LAB.parent


def cache_directory() -> Path:
    """Return the folder for everything that can be rebuilt, shared by all checkouts of one user."""
    if chosen := os.environ.get("NUMAFORGE_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "numaforge"


def state_directory() -> Path:
    """Return the folder of the running lab: keys, disks, logs, sockets, process ids."""
    chosen = os.environ.get("NUMAFORGE_LAB_DIR")
    return Path(chosen).expanduser().absolute() if chosen else REPOSITORY / ".lab"
