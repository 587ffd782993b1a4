"""Run pyinfra many times without paying for its start, as a roll-out does (`numaforge.rollout.forks`).

What runs is what the command `pyinfra` runs. Tests of the start itself, and of what a signal does to a run,
start the command.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from lab.paths import REPOSITORY
from numaforge.rollout.forks import Forks, serve

COMMAND = Path(sys.executable).parent / "pyinfra"


@cache
def forks() -> Forks:
    """Return this process's own."""
    return Forks("tests.ssh.pyinfra_forks")


def run(
    arguments: Sequence[str], environment: Mapping[str, str], seconds: float, folder: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """Run `pyinfra ARGUMENTS` in a folder; all that it says is its output."""
    deadline = time.monotonic() + seconds
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        process = forks().start(arguments, environment, folder, Path(log.name))
        try:
            while (code := process.poll()) is None:
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired([str(COMMAND), *arguments], seconds, log.read())
                time.sleep(0.05)  # each question costs a millisecond, here and there
        finally:  # an interrupt of the tests ends it, too
            process.kill()
        return subprocess.CompletedProcess([str(COMMAND), *arguments], code, log.read(), None)


def command() -> int:
    """Be the command `pyinfra`."""
    from pyinfra_cli.main import main  # type: ignore[import-untyped]

    sys.path[0] = str(COMMAND.parent)
    sys.argv[0] = str(COMMAND)
    main()
    return 0


if __name__ == "__main__":
    from numaforge.run import pyinfra_cli

    pyinfra_cli.prepare()
    serve(command)
