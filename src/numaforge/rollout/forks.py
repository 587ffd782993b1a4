"""Runs of pyinfra without the cost of its imports: half a second of CPU and 50 MiB each.

A process that has only imported what a run needs forks for every run; it ends with its client.
"""

import atexit
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

from numaforge.lib.errors import NumaforgeError

PROGRAM = "numaforge.run.pyinfra_forks"
"""A module name rather than an import, so that the client does not import pyinfra."""
_GONE = "the process that starts runs of pyinfra has ended"
_REMEDY = (
    "what has begun goes on by itself; `numaforge rollout resume` waits for it, and changes the other nodes"
)


@dataclass
class Fork:
    """A forked process; `returncode` is None until a `poll` has found that it has ended."""

    pid: int
    forks: "Forks"
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, None while it runs; raises NumaforgeError where no process can tell."""
        if self.returncode is None:
            self.returncode = self.forks.ask({"poll": self.pid})
        return self.returncode

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.returncode is None:
            self.forks.ask({"kill": self.pid})


class Forks:
    """The forking process; `module` is the program that it runs, which calls `serve`."""

    def __init__(self, module: str) -> None:
        parent_end, child_end = socket.socketpair()
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                env={**os.environ, "PYINFRA_PROGRESS": "off"},  # read by pyinfra on import
                stdin=child_end.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the terminal is for the client only
            )
        with parent_end:
            self._end = parent_end.makefile("rw", encoding="utf-8")
        self._one_asks = threading.Lock()

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    @property
    def is_there(self) -> bool:
        """Whether the forking process is still running."""
        return self._process.poll() is None

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> Fork:
        """Start a run, which continues when this process ends; raises OSError where it cannot start."""
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
        """End the forking process; its runs continue."""
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
    """Return this process's forking process."""
    if not _forks().is_there:
        _forks.cache_clear()
    return _forks()


@cache
def _forks() -> Forks:
    return Forks(PROGRAM)


# ---- in the process that forks ----


def serve(run: Callable[[], int]) -> None:
    """Answer each line of stdin: a run with its process ID, `poll` with its exit code or null."""
    from gevent import monkey  # type: ignore[import-untyped]

    fork, waitpid = monkey.get_original("os", ["fork", "waitpid"])  # gevent's own would start an event loop
    gc.collect()
    gc.freeze()  # this memory stays shared with every run while no collection touches it

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
    """Become the requested run: with its arguments, environment, folder and output, and no terminal."""
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
    sys.argv[:] = ["pyinfra", *request["arguments"]]
    code = run()
    # An interpreter that ends goes through all of its memory, which is shared here: 0.1 s of CPU a run.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
