"""Events of a pyinfra run for the program that started it: JSON lines in a file, which needs no reader."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

EVENTS = "NUMAFORGE_EVENTS"  # the environment variable that names the file
PROCESSES = "NUMAFORGE_PROCESSES"
"""The environment variable with the number of processes that may share a run's hosts; 1 if not set."""

CONNECTIONS = "NUMAFORGE_CONNECTIONS"
"""Set where the program that started the run has to know how hosts are reached, passwords included."""


def heard() -> bool:
    """Whether `numaforge rollout` has started this run."""
    return bool(os.environ.get(EVENTS))


def record(kind: str, host: str, **fields: Any) -> None:
    """Append an event, with the time, in one write, where the run has a file for events."""
    if not (path := os.environ.get(EVENTS)):
        return
    event = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "kind": kind, "host": host}
    line = json.dumps({**event, **fields}, default=str)
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
        """Return the new events; a line that is still being written is left for the next call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                complete, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._offset += len(complete) + len(newline)
        return [json.loads(line) for line in complete.splitlines()]
