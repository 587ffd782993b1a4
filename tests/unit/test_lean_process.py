"""How a program ends that does not take apart what it has made: nothing is lost by it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BEGIN = "import atexit, os, sys, threading; from numaforge import lean_process\n"


def ended(program: str, **options: object) -> tuple[int, str]:
    """Return the exit code of a program and what it has printed last."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(  # type: ignore[call-overload]
        [sys.executable, "-c", BEGIN + program],
        env=environment,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 300, **options},
    )
    return done.returncode, (done.stderr or done.stdout or "").strip().split("\n")[-1]


ENDS = {
    "a program's code is that of the process": ("lean_process.run(lambda: 6)", 6, ""),
    "what is printed is written": ("lean_process.run(lambda: print('a plan') or 0)", 0, "a plan"),
    "what is registered meanwhile is called": (
        "lean_process.run(lambda: atexit.register(print, 'unlocked') and 3)",
        3,
        "unlocked",
    ),
    "what was registered before is called": (
        "atexit.register(print, 'profiled'); lean_process.run(lambda: 3)",
        3,
        "profiled",
    ),
    "threads are waited for": (
        (
            "gate = threading.Event(); end = lambda: (gate.wait(), print('through'))\n"
            "def program():\n"
            "    threading.Thread(target=end).start(); threading.Timer(0.1, gate.set).start(); return 1\n"
            "lean_process.run(program)"
        ),
        1,
        "through",
    ),
    "an error is Python's to show": ("lean_process.run(lambda: 1 // 0)", 1, "ZeroDivisionError: "),
    "nothing is taken apart": (
        (
            "class Large:\n    def __del__(self): print('taken apart')\n"
            "large = Large(); lean_process.run(lambda: 0)"
        ),
        0,
        "",
    ),
}


@pytest.mark.parametrize(("program", "code", "printed"), ENDS.values(), ids=ENDS)
def test_a_process_ends(program: str, code: int, printed: str) -> None:
    found, last = ended(program)
    assert (found, last[: len(printed)] if printed else last) == (code, printed)


def test_output_that_is_lost_is_no_success() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 (a device)
        code, last = ended("lean_process.run(lambda: print('a plan') or 0)", stdout=full)
    assert (code, last) == (120, "OSError: [Errno 28] No space left on device")
