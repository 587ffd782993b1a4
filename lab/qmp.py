"""QEMU's machine protocol: pause a virtual machine, save its state."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.errors import LabError


def connect(path: Path, timeout_s: float) -> socket.socket:
    """Return a connection to a unix socket in a folder however deep.

    A socket's path may have 107 bytes; through the descriptor of its folder it is always short enough.
    """
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    folder = os.open(path.parent, os.O_PATH)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


def listens(path: Path) -> bool:
    """Say whether a unix socket takes connections; its file is there a moment before."""
    try:
        connect(path, timeout_s=30).close()
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True


class Monitor:
    """A connection to one QEMU, used as a context manager.

    >>> with Monitor(Path(".lab/nodes/numaforge-lab-1/qmp.sock")) as monitor:
    ...     monitor.execute("query-status")
    {'status': 'running', 'singlestep': False, 'running': True}
    """

    def __init__(self, path: Path, timeout_s: float = 120) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def __enter__(self) -> Monitor:
        try:
            self._socket = connect(self._path, self._timeout_s)
        except OSError as refusal:
            raise LabError(f"QEMU cannot be reached: {refusal}", where=str(self._path)) from refusal
        self._stream = self._socket.makefile("rw")
        self._stream.readline()
        self.execute("qmp_capabilities")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._socket.close()

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command and return its answer; events that arrive meanwhile are passed over."""
        try:
            self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
            self._stream.flush()
            for line in self._stream:
                answer = json.loads(line)
                if "error" in answer:
                    raise LabError(f"{command}: {answer['error']['desc']}", where=str(self._path))
                if "return" in answer:
                    return answer["return"]
        except OSError as cut:
            raise LabError(f"{command}: QEMU has gone: {cut}", where=str(self._path)) from cut
        raise LabError(f"{command}: QEMU closed the connection", where=str(self._path))

    def human(self, line: str) -> None:
        """Run a command of the human monitor that says nothing when it succeeds."""
        answer = self.execute("human-monitor-command", **{"command-line": line})
        if answer.strip():
            raise LabError(f"{line}: {answer.strip()}", where=str(self._path))

    def save(self, name: str) -> None:
        """Save memory, devices and disk under `name`."""
        self.human(f"savevm {name}")
