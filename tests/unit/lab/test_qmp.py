"""A QEMU that goes while it is asked, and one that is another than the lab was saved by."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import cluster, qmp
from lab.errors import LabError


@pytest.fixture
def gone(tmp_path, monkeypatch):
    """A monitor that greets, takes its first command, and is gone before it has read the second."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("qmp.sock")
        server.listen()
        asked = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as stream:
                print(json.dumps({"QMP": {}}), flush=True, file=stream)
                stream.readline()
                print(json.dumps({"return": {}}), flush=True, file=stream)
                asked.wait(60)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Path("qmp.sock"), asked
        asked.set()
        thread.join()


def test_a_monitor_that_goes_is_one_error_of_the_lab(gone) -> None:
    path, asked = gone
    with qmp.Monitor(path) as monitor:
        write = monitor._stream.write

        def write_and_let_go(text: str) -> int:
            written = write(text)
            monitor._stream.flush()
            asked.set()
            return int(written)

        monitor._stream.write = write_and_let_go  # type: ignore[method-assign]
        with pytest.raises(LabError, match="stop: QEMU has gone"):
            monitor.execute("stop")


def test_what_another_qemu_has_saved_is_not_taken(monkeypatch) -> None:
    image: Any = SimpleNamespace(folder=Path("image"))
    recipes = []
    for version in ("QEMU emulator version 7.2.22", "QEMU emulator version 10.0.2"):
        monkeypatch.setattr(cluster, "emulator", lambda said=version: said)
        recipes.append(cluster._recipe(image, {}, {}))
    assert len({*recipes}) == 2
