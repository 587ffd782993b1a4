"""QEMU's machine protocol: pause a virtual machine, save its state, put it back."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.errors import LabError


class Monitor:
    """A connection to one QEMU, used as a context manager.

    >>> with Monitor(Path(".lab/nodes/numaforge-lab-1/qmp.sock")) as monitor:
    ...     monitor.execute("query-status")
    {'status': 'running', 'singlestep': False, 'running': True}
    """

    def __init__(self, path: Path, timeout_s: float = 120) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        self._stream = self._socket.makefile("rw")

    def __enter__(self) -> Monitor:
        # A socket's path may have 107 bytes; through the folder's descriptor any folder is short enough.
        folder = os.open(self._path.parent, os.O_PATH)
        try:
            self._socket.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)
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
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._stream.flush()
        for line in self._stream:
            answer = json.loads(line)
            if "error" in answer:
                raise LabError(f"{command}: {answer['error']['desc']}", where=str(self._path))
            if "return" in answer:
                return answer["return"]
        raise LabError(f"{command}: QEMU closed the connection", where=str(self._path))

    def human(self, line: str) -> None:
        """Run a command of the human monitor that says nothing when it succeeds."""
        answer = self.execute("human-monitor-command", **{"command-line": line})
        if answer.strip():
            raise LabError(f"{line}: {answer.strip()}", where=str(self._path))

    def save(self, name: str) -> None:
        """Save memory, devices and disk under `name`."""
        self.human(f"savevm {name}")

    def load(self, name: str) -> None:
        """Put memory, devices and disk back as they were saved under `name`."""
        self.human(f"loadvm {name}")
