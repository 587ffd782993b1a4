"""A signal ends the lab also where Python loses what the handler raises."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab.paths import REPOSITORY

LOST = """
import io, os, signal
from lab import interrupts
from lab.progress import step

class Answer(io.RawIOBase):
    def close(self):
        if not self.closed:
            super().close()
            os.kill(os.getpid(), signal.SIGTERM)

interrupts.install()
try:
    with step("wait"):
        answer = Answer()
        del answer
        print("lost", flush=True)
finally:
    with step("end what was started"):
        print("ended", flush=True)
print("went on", flush=True)
"""
KILL = "os.kill(os.getpid(), signal.SIGTERM)"
PLAIN = LOST.replace("answer = Answer()", KILL).replace("del answer", "pass")


@pytest.mark.parametrize(
    ("program", "seen"),
    [
        pytest.param(LOST, ["lost", "ended"], id="in a finalizer, which drops what is raised"),
        pytest.param(PLAIN, ["ended"], id="anywhere else"),
    ],
)
def test_a_signal_ends_what_was_started(program: str, seen: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split("\n")[:-1], done.returncode) == (seen, 128 + 15), done.stderr
