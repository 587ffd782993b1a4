"""Run scripts on this machine, as on a node."""

import subprocess

from numaforge.lib import bounded
from numaforge.lib.errors import HostError
from numaforge.lib.framing import Answer

_SECONDS = 900


def ask(script: str) -> Answer:
    """Run a script here, and return its answer.

    Raises HostError with its complaint where it fails, HostUnreachableError where it does not end.
    """
    try:
        done = bounded.run_script(script, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"the node does not answer itself: {error}") from error
    answer = Answer.of(done.stdout.decode("utf-8", "surrogateescape"))
    if answer.status != 0:
        stderr = done.stderr.decode("utf-8", "replace").strip()
        raise HostError(stderr or f"the script failed with {answer.status}")
    return answer
