"""Names of processes: whose they are, and whether they live."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from numaforge.rollout.runner import is_gone, owner_of, this_runner


def test_this_process_lives():
    assert not is_gone(this_runner())


def test_a_process_that_has_ended_is_gone():
    command = "from numaforge.rollout.runner import this_runner; print(this_runner())"
    ended = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert is_gone(ended.stdout.strip())


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        pytest.param(".", ".9", True, id="another process has its PID by now"),
        pytest.param("/", "/another", True, id="the machine was started again"),
        pytest.param(f"@{socket.gethostname()}", "@elsewhere", False, id="nobody knows of another machine"),
    ],
)
def test_of_another_process(old, new, gone):
    head, place, tail = this_runner().rpartition(old) if old == "." else this_runner().partition(old)
    assert is_gone(f"{head}{new if place else ''}{tail}") is gone


@pytest.mark.parametrize("name", ["", "somebody", "kured"], ids=["nobody", "a name", "another tool"])
def test_what_is_no_runner_is_not_known_to_be_gone(name):
    assert not is_gone(name)


def test_a_person_and_a_machine_are_read_from_a_name():
    assert owner_of("ann@gpu-admin/1a2b/17.99") == "ann@gpu-admin"
