"""Run pyinfra and numaforge without paying for each start, as a roll-out does (`numaforge.rollout.forks`).

What runs is what the commands run. Tests of the start itself, and of what a signal does to a run, start the
command.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir
from functools import cache
from pathlib import Path

from lab.paths import REPOSITORY
from numaforge.rollout.forks import Forks, serve

PROGRAMS = Path(sys.executable).parent
ERRORS = "TESTS_STANDARD_ERROR"
"""The file for what a run of numaforge writes to standard error."""


@cache
def forks() -> Forks:
    """Return this process's own."""
    with chdir(REPOSITORY):  # a test may be elsewhere, and the module is found from here
        return Forks("tests.ssh.pyinfra_forks")


def run(
    arguments: Sequence[str], environment: Mapping[str, str], seconds: float, folder: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """Run `pyinfra ARGUMENTS` in a folder; all that it says is its output."""
    return _run(["pyinfra", *arguments], environment, seconds, folder)


def numaforge(
    *words: str, folder: Path, environment: Mapping[str, str] = os.environ, seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run `numaforge WORDS` in a folder, without a terminal."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as errors:
        done = _run(["numaforge", *words], {**environment, ERRORS: errors.name}, seconds, folder)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout, errors.read())


def _run(
    command: Sequence[str], environment: Mapping[str, str], seconds: float, folder: Path
) -> subprocess.CompletedProcess[str]:
    deadline = time.monotonic() + seconds
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        process = forks().start(command, environment, folder, Path(log.name))
        try:
            while (code := process.poll()) is None:
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired([*command], seconds, log.read())
                time.sleep(0.05)  # each question costs a millisecond, here and there
        finally:  # an interrupt of the tests ends it, too
            process.kill()
        return subprocess.CompletedProcess([*command], code, log.read(), None)


def command() -> int:
    """Be the command that the first argument names."""
    program = sys.argv.pop(1)
    sys.path[0] = str(PROGRAMS)
    sys.argv[0] = str(PROGRAMS / program)
    if program == "numaforge":
        from numaforge.cli import run

        os.dup2(os.open(os.environ.pop(ERRORS), os.O_WRONLY), 2)
        return run()
    from pyinfra_cli.main import main  # type: ignore[import-untyped]

    main()
    return 0


if __name__ == "__main__":
    from numaforge.run import pyinfra_cli

    pyinfra_cli.prepare()
    serve(command)
