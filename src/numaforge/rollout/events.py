"""What a run under pyinfra tells the program that started it: JSON lines in a file, one for each event.

A file and no pipe: a run goes on when nobody listens any more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

EVENTS = "NUMAFORGE_EVENTS"
"""The environment variable that names the file."""
PROCESSES = "NUMAFORGE_PROCESSES"
"""The environment variable that says how many processes a run may divide its hosts between; 1 if not set."""


def heard() -> bool:
    """Say whether `numaforge rollout` has started this run."""
    return bool(os.environ.get(EVENTS))


def record(kind: str, host: str, **fields: Any) -> None:
    """Append an event, where anybody wants to know."""
    path = os.environ.get(EVENTS)
    if path:
        append(Path(path), {"kind": kind, "host": host, **fields})


def append(path: Path, event: Mapping[str, Any]) -> None:
    """Append one line, with the time, in one write."""
    line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **event}, default=str)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


class Reader:
    """Reads the events that have been added to a file since the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> list[dict[str, Any]]:
        """Return the new events; a line that is still being written comes next time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._offset += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]
