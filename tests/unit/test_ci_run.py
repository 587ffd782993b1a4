"""`.ci/run` runs `make test`, and repeats at the very end what has failed, of every part, and why."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures.processes import line_from

PART = """
import pytest
def test_sound(): pass
@pytest.mark.parametrize("colour", ["red"])
def test_wrong(colour): assert {"colour": colour} == {"colour": "blue"}, "NAME is not blue"
@pytest.fixture
def broken(): raise RuntimeError("NAME does not start")
def test_needs(broken): pass
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A folder with the command and a `make test` of its own, as if no make ran these tests."""
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".ci").mkdir()
    (tmp_path / "tests").mkdir()
    shutil.copy(REPOSITORY / ".ci/run", tmp_path / ".ci/run")
    shutil.copy(REPOSITORY / "tests/beside.sh", tmp_path / "tests/beside.sh")
    return tmp_path


def run(checkout: Path, recipe: str) -> subprocess.CompletedProcess[str]:
    (checkout / "Makefile").write_text(f"test:\n\t{recipe}\n")
    return subprocess.run([checkout / ".ci/run"], capture_output=True, text=True, check=False, timeout=240)


def test_success_adds_nothing(checkout):
    done = run(checkout, "@echo all is well")
    assert (done.returncode, done.stdout) == (0, "all is well\n")


def test_a_failure_keeps_its_exit_code(checkout):
    assert run(checkout, "@exit 3").returncode == 2  # make's own for every failure


def test_failing_tests_of_every_part_stand_at_the_end_with_their_reasons(checkout):
    for name in ("one", "two"):
        (checkout / f"test_{name}.py").write_text(PART.replace("NAME", name))
    pytest_alone = f"{sys.executable} -m pytest -q -ra -p no:cacheprovider"
    commands = [f"{pytest_alone} test_{name}.py" for name in ("one", "two")]
    done = run(checkout, f"@{commands[0]}; first=$$?; {commands[1]}; [ $$first -eq 0 ]")
    end = done.stdout.partition("== what has failed\n")[2]
    assert done.returncode == 2
    for name in ("one", "two"):
        assert f"FAILED test_{name}.py::test_wrong[red] - AssertionError: {name} is not blue" in end
        assert f"ERROR test_{name}.py::test_needs - RuntimeError: {name} does not start" in end
        reasons = [line[1:].strip() for line in end.splitlines() if line.startswith("E  ")]
        assert f"AssertionError: {name} is not blue" in reasons
        assert f"RuntimeError: {name} does not start" in reasons
    assert "test_sound" not in end
    assert done.stdout.endswith(end)


def test_of_a_long_reason_the_beginning_and_the_end_are_shown(checkout):
    (checkout / "test_long.py").write_text(
        "def test_wrong():\n"
        "    assert 0, 'first\\n' + '\\n'.join(f'line {n}' for n in range(100)) + '\\nlast'\n"
    )
    done = run(checkout, f"@{sys.executable} -m pytest -q -ra -p no:cacheprovider test_long.py")
    end = done.stdout.partition("== what has failed\n")[2]
    reasons = [line[1:].strip() for line in end.splitlines() if line.startswith("E  ")]
    assert reasons[0] == "AssertionError: first"
    assert {"line 90", "last"} <= {*reasons}
    assert "line 50" not in reasons
    assert len(reasons) < 40


def test_a_part_that_is_no_test_is_named_at_the_end(checkout):
    done = run(checkout, "@sh tests/beside.sh 'sh -c \"echo no room; exit 4\"' 'sleep 1000'")
    end = done.stdout.partition("== what has failed\n")[2]
    assert '== failed with 4: sh -c "echo no room; exit 4"\n' in end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_a_signal_ends_the_tests_first(checkout, number):
    os.mkfifo(checkout / "begun")
    (checkout / "tests/part.sh").write_text(
        "trap 'echo ended in its own way; exit' TERM\necho > begun\nsleep 1000 &\nwait\n"
    )
    (checkout / "Makefile").write_text("test:\n\t@sh tests/beside.sh 'sh tests/part.sh'\n")
    running = subprocess.Popen([checkout / ".ci/run"], stdout=subprocess.PIPE, text=True)
    line_from(checkout / "begun", running)
    running.send_signal(number)
    out, _ = running.communicate(timeout=120)
    assert running.returncode != 0
    assert "ended in its own way" in out
