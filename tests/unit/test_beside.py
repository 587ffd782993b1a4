"""`tests/beside.sh` runs the parts of `make test`: one that fails ends the others, and is shown last."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures.processes import line_from

SHELLS = [pytest.param(shell, id=shell.replace(" ", "-")) for shell in ("dash", "bash", "busybox sh")]
ENDLESS = "sleep 1000"


@pytest.fixture(params=SHELLS)
def beside(request):
    """The command line up to the parts."""
    return [*shlex.split(request.param), str(REPOSITORY / "tests/beside.sh")]


def run(beside, *parts):
    return subprocess.run([*beside, *parts], capture_output=True, text=True, check=False, timeout=120)


def test_success_shows_the_last_part_and_then_the_others(beside):
    done = run(beside, "echo one", "sh -c 'echo two; echo three >&2'", "echo four")
    assert done.returncode == 0
    assert done.stdout == "four\n\n== echo one\none\n\n== sh -c 'echo two; echo three >&2'\ntwo\nthree\n"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_part_that_fails_ends_the_others_and_is_shown_last(beside, place):
    failing = "sh -c 'echo this is why; exit 7'"
    parts = [ENDLESS, ENDLESS, ENDLESS]
    parts[place] = failing
    done = run(beside, *parts)
    assert done.returncode == 1
    assert done.stdout.endswith(f"\n== {failing}\nthis is why\n\n== failed with 7: {failing}\n")


def test_what_an_ended_part_had_to_say_is_shown_before(beside, tmp_path):
    os.mkfifo(tmp_path / "said")
    speaks = f"sh -c 'echo half a sentence; echo > {tmp_path / 'said'}; {ENDLESS}'"
    done = run(beside, speaks, f"sh -c 'read line < {tmp_path / 'said'}; false'")
    before, after = done.stdout.split("== failed")[0].split(f"== {speaks} (ended early)\n")
    assert after.startswith("half a sentence\n")
    assert "half a sentence" not in before


# Each writes into PIPE the number of a process that it starts.
STRAYS = {
    "a child": f"sh -c '{ENDLESS} & echo $! > PIPE; wait'",
    "a process of another session": f"sh -c 'setsid {ENDLESS} & echo $! > PIPE; wait'",
    "an orphan": f"sh -c '(setsid {ENDLESS} & echo $! > PIPE); exec {ENDLESS}'",
    "an orphan of a part that fails": f"sh -c '(setsid {ENDLESS} & echo $! > PIPE); exit 1'",
}


@pytest.mark.parametrize("stray", [pytest.param(part, id=rule) for rule, part in STRAYS.items()])
def test_a_failure_leaves_no_process_behind(beside, tmp_path, stray):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    os.mkfifo(f"{pipe}.go")
    part = stray.replace("PIPE", str(pipe))
    running = subprocess.Popen(
        [*beside, part, f"sh -c 'read go < {pipe}.go; false'"], stdout=subprocess.DEVNULL
    )
    process = int(line_from(pipe, running))
    if "exit 1" not in stray:
        Path(f"{pipe}.go").write_text("go\n")
    assert running.wait(timeout=120) == 1
    assert not is_alive(process)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)], ids=str
)
def test_a_signal_ends_every_part_first(beside, tmp_path, number, code):
    os.mkfifo(tmp_path / "pipe")
    in_its_own_way = 'trap "echo ended in its own way; exit" TERM'
    part = f"sh -c '{in_its_own_way}; echo $$ > {tmp_path / 'pipe'}; {ENDLESS} & wait'"
    running = subprocess.Popen(
        [*beside, ENDLESS, part],
        stdout=subprocess.PIPE,
        text=True,
        # A shell has what it starts in the background ignore it, these tests perhaps.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    process = int(line_from(tmp_path / "pipe", running))
    running.send_signal(number)
    out, _ = running.communicate(timeout=120)
    assert running.returncode == code
    assert out == "ended in its own way\n"
    assert not is_alive(process)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_workers_of_pytest_end_with_what_they_have_started(tmp_path):
    """A fixture is torn down when its part is ended, as those are that take a lab down."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_waits.py").write_text(
        "import pytest, time\n"
        "from pathlib import Path\n"
        f"FOLDER = Path({str(tmp_path)!r})\n"
        "@pytest.fixture\n"
        "def thing():\n"
        "    yield\n"
        "    (FOLDER / 'torn-down').touch()\n"
        "def test_waits(thing):\n"
        "    (FOLDER / 'go').write_text('go')\n"
        "    time.sleep(1000)\n"
    )
    os.mkfifo(tmp_path / "go")
    options = "-q -n 2 -p no:cacheprovider --import-mode=importlib"
    part = f"env PYTHONPATH={REPOSITORY} {sys.executable} -m pytest {options} {tmp_path}"
    fails = f"sh -c 'read go < {tmp_path / 'go'}; false'"
    done = run(["dash", str(REPOSITORY / "tests/beside.sh")], part, fails)
    assert done.returncode == 1
    assert (tmp_path / "torn-down").exists()
