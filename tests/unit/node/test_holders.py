"""A process that holds a GPU is named so that a person knows it, and nothing of it that may be a secret."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from numaforge.node.holders import Holder
from tests.fixtures.tables import cases

USER = pwd.getpwuid(os.getuid()).pw_name
SLEEP = str(shutil.which("sleep"))


@cases(
    "words, named",
    {
        "the program and what it runs": ([SLEEP, "1000"], f"{SLEEP} 1000"),
        "no more than that": ([SLEEP, "1000", "2000"], f"{SLEEP} 1000"),
        "what env has become": (["env", "KEY=hidden", SLEEP, "1000"], f"{SLEEP} 1000"),
        "no code, no options": ([sys.executable, "-c", "input('hidden')", "--token=hidden"], sys.executable),
        "nothing after the standard input": ([sys.executable, "-", "hidden"], sys.executable),
    },
)
def test_holder_is_named_by_its_program_without_arguments(words: list[str], named: str) -> None:
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        try:
            while _starts(process.pid):
                os.sched_yield()
            assert str(Holder(process.pid, "other", "")) == f"pid {process.pid} ({named[:80]}) of {USER}"
        finally:
            process.kill()


def _starts(pid: int) -> bool:
    """Return whether a process is still `env`, or the kernel has not yet set up its arguments."""
    process = Path(f"/proc/{pid}")
    return not (process / "cmdline").read_bytes() or (process / "comm").read_text().strip() == "env"


def test_ended_process_is_reported_as_ended() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert str(Holder(process.pid, "other", "")) == f"pid {process.pid}, which has ended"
