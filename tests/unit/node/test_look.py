"""What look.sh prints, under the shells that hosts have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from numaforge import shell as scripts
from numaforge.errors import HostError
from numaforge.node.look import parse_values


@pytest.fixture(params=["dash", "bash", "busybox sh"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    command = request.param.split()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return [shutil.which(command[0]) or "", *command[1:]]


def read(shell: list[str], paths: list[str]) -> list[str]:
    script = scripts.library("node/look") + scripts.call("read_values", paths)
    done = subprocess.run([*shell, "-s"], input=script, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_values_are_the_first_lines_of_what_can_be_read(shell, tmp_path: Path) -> None:
    odd = tmp_path / "two words; echo 'mine'"
    odd.write_text(" first\\n \nsecond\n")
    empty = tmp_path / "empty"
    empty.write_text("")
    sysctl = "/proc/sys/kernel/ostype"
    paths = [str(odd), str(tmp_path / "missing"), str(empty), sysctl, "/proc/sys/missing"]
    assert parse_values(paths, read(shell, paths)) == {
        str(odd): " first\\n ",
        sysctl: "Linux",
    }


def test_values_of_nothing_are_none(shell) -> None:
    assert parse_values([], read(shell, [])) == {}


def test_values_that_are_cut_off_are_refused() -> None:
    with pytest.raises(HostError, match="cut off"):
        parse_values(["/a"], ["/a:1"])
