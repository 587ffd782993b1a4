"""Runs of pyinfra that do not pay for its start: half a second of CPU and 50 MiB each, for what it imports.

A process that has imported what a run needs, and has done nothing else, forks for every run. It does what it
is asked to, one request after another, and ends when the process that asks it has ended; its runs continue.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from numaforge.errors import NumaforgeError

PROGRAM = "numaforge.pyinfra_forks"
"""By its name: what imports pyinfra is no part of what asks it."""
_GONE = "the process that starts runs of pyinfra has ended"
_REMEDY = (
    "what has begun goes on by itself; `numaforge rollout resume` waits for it, and changes the other nodes"
)


@dataclass
class Fork:
    """A process that was forked; `returncode` is None until a `poll` has found that it has ended."""

    pid: int
    forks: Forks
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended, as `subprocess.Popen` has it; None while it has not.

        Raises NumaforgeError where the process that forks is gone: nothing is known of a run then.
        """
        if self.returncode is None:
            self.returncode = self.forks.ask({"poll": self.pid})
        return self.returncode

    def kill(self) -> None:
        """End it at once, where it has not ended."""
        if self.returncode is None:
            self.forks.ask({"kill": self.pid})


class Forks:
    """The process that forks; `module` is the program that it runs, which calls `serve`."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                env={**os.environ, "PYINFRA_PROGRESS": "off"},  # pyinfra looks at it when it is imported
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the terminal is for the one that asks
            )
        with ours:
            self._end = ours.makefile("rw", encoding="utf-8")
        self._one_asks = threading.Lock()

    @property
    def pid(self) -> int:
        """The process itself."""
        return self._process.pid

    @property
    def is_there(self) -> bool:
        """Say whether it can be asked."""
        return self._process.poll() is None

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> Fork:
        """Run in a folder, with what is said appended to a log. The run continues when this process ends.

        Raises OSError where no process can be had.
        """
        answer = self.ask(
            {
                "arguments": [*arguments],
                "environment": {**environment},
                "folder": str(folder.absolute()),
                "log": str(log.absolute()),
            }
        )
        if isinstance(answer, str):
            raise OSError(answer)
        return Fork(answer, self)

    def close(self) -> None:
        """Have it end; its runs continue."""
        self._end.close()
        self._process.wait()

    def ask(self, request: Mapping[str, object]) -> Any:
        """Return the answer to a request; raises NumaforgeError where none comes."""
        try:
            with self._one_asks:
                self._end.write(json.dumps(request) + "\n")
                self._end.flush()
                line = self._end.readline()
        except OSError as error:
            raise NumaforgeError(_GONE, where=error.strerror, remedy=_REMEDY) from error
        if not line:
            raise NumaforgeError(_GONE, remedy=_REMEDY)
        return json.loads(line)


def forks() -> Forks:
    """Return the process that forks for this one."""
    if not _forks().is_there:
        _forks.cache_clear()
    return _forks()


@cache
def _forks() -> Forks:
    return Forks(PROGRAM)


# ---- in the process that forks ----


def serve(run: Callable[[], int]) -> None:
    """Answer each line of stdin, until there are no more.

    A run is answered with the number of its process, `poll` with how that ended, null while it has not.
    """
    from gevent import monkey  # type: ignore[import-untyped]

    fork, waitpid = monkey.get_original("os", ["fork", "waitpid"])  # gevent's own would begin an event loop
    gc.collect()
    gc.freeze()  # what is here now is shared with every run, as long as no collection touches it

    def answer(request: Mapping[str, Any]) -> int | str | None:
        if "poll" in request:
            pid, status = waitpid(request["poll"], os.WNOHANG)
            return os.waitstatus_to_exitcode(status) if pid else None
        if "kill" in request:
            os.kill(request["kill"], signal.SIGKILL)
            return None
        try:
            child: int = fork()
        except OSError as error:
            return str(error)
        if child == 0:
            become(run, request)
        return child

    while line := sys.stdin.readline():
        os.write(0, json.dumps(answer(json.loads(line))).encode() + b"\n")


def become(run: Callable[[], int], request: Mapping[str, Any]) -> NoReturn:
    """Be the run that is asked for: with its arguments, environment, folder and output, and no terminal."""
    os.setsid()
    output = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for end, fd in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(end, fd)
    os.close(output)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    sys.argv = ["pyinfra", *request["arguments"]]
    sys.exit(run())
