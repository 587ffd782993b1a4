"""Capture a machine and load snapshots: the only input of the rest of numaforge."""

from __future__ import annotations

from numaforge.machine.snapshot.capture import from_local, from_root, parse_output, script
from numaforge.machine.snapshot.model import Snapshot

__all__ = ["Snapshot", "from_local", "from_root", "parse_output", "script"]
