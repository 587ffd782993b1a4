"""Run pyinfra many times without paying for its start: half a second of CPU each, spent on imports.

A process that has imported what `pyinfra` imports, and done nothing else, forks for every run. What runs is
what the command `pyinfra` runs. Tests of the start itself, and of what a signal does to a run, start the
command.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from select import select
from typing import NoReturn

from lab.paths import REPOSITORY

COMMAND = Path(sys.executable).parent / "pyinfra"


class Forks:
    """The process that forks; it ends with the one that asks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.ssh.pyinfra_forks"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._busy = threading.Lock()

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `pyinfra ARGUMENTS` from the repository's root, one run after another."""
        command = [str(COMMAND), *arguments]
        with self._busy, tempfile.NamedTemporaryFile("r", encoding="utf-8") as output:
            pid = int(self._ask({"command": command, "environment": {**environment}, "output": output.name}))
            ready, _, _ = select([self._process.stdout], [], [], seconds)
            if not ready:
                os.kill(pid, signal.SIGKILL)
            code = int(self._answer())
            if not ready:
                raise subprocess.TimeoutExpired(command, seconds, output.read())
            return subprocess.CompletedProcess(command, code, output.read(), None)

    def _ask(self, request: Mapping[str, object]) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process that forks has ended"
        return line


@cache
def forks() -> Forks:
    """Return this process's own."""
    return Forks()


def serve() -> None:
    """Fork for each line of stdin; print the process, and its exit code when it has ended."""
    from gevent import monkey

    import numaforge.pyinfra_cli  # noqa: F401 (everything that a run imports; gevent patches what follows)

    fork, waitpid = monkey.get_original("os", ["fork", "waitpid"])  # no event loop is to be begun here
    while line := sys.stdin.readline():
        request = json.loads(line)
        pid = fork()
        if pid == 0:
            become(request)
        os.write(1, b"%d\n" % pid)
        _, status = waitpid(pid, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def become(request: Mapping[str, object]) -> NoReturn:
    """Be `pyinfra`, with the command's arguments, environment and output."""
    from pyinfra_cli.main import main

    command, environment = request["command"], request["environment"]
    assert isinstance(command, list)
    assert isinstance(environment, dict)
    output = os.open(str(request["output"]), os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for end, fd in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(end, fd)
    os.close(output)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command
    sys.path[0] = str(COMMAND.parent)
    sys.exit(main())


if __name__ == "__main__":
    serve()
