"""The scripts of numaforge.hosts under the shells that hosts have."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from numaforge.errors import SnapshotError
from numaforge.hosts.facts import Detection, RightedOutput

Run = Callable[..., list[str]]

ID = '#!/bin/sh\necho "$FAKE_UID"\n'
SUDO = '#!/bin/sh\n[ "$1" = -n ] && [ -n "$MAY" ] || exit 1\nshift\nFAKE_UID=0 exec "$@"\n'


@pytest.fixture(params=["dash", "bash", "busybox sh"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    command = request.param.split()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return command


@pytest.fixture
def run(shell: list[str]) -> Run:
    def run(*arguments: str, stdin: str, path: str = os.environ["PATH"], **environment: str) -> list[str]:
        done = subprocess.run(
            [shutil.which(shell[0]) or "", *shell[1:], *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={"PATH": path, **environment},
            check=True,
        )
        return done.stdout.removesuffix("\n").split("\n")

    return run


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH of what as_root.sh needs, to which a test adds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "true", "gzip", "base64"):
        (folder / name).symlink_to(shutil.which(name) or "")
    write(folder / "id", ID)
    return folder


def write(program: Path, text: str) -> None:
    program.write_text(text)
    program.chmod(0o755)


def detect(run: Run, programs: Path, script: str, **environment: str) -> RightedOutput | None:
    output = run("-c", Detection().command(), stdin=script, path=str(programs), **environment)
    return Detection().process(output)


@pytest.mark.parametrize(
    ("environment", "answer"),
    [
        ({"FAKE_UID": "0"}, RightedOutput("root", ("one", "", "two"))),
        ({"FAKE_UID": "1000", "MAY": "yes"}, RightedOutput("sudo", ("one", "", "two"))),
        ({"FAKE_UID": "1000"}, RightedOutput("password", ())),
    ],
    ids=["root", "sudo-asks-for-nothing", "sudo-asks-for-a-password"],
)
@pytest.mark.parametrize("without", ["", "gzip", "base64"])
def test_a_script_runs_as_root_by_the_right_that_there_is(
    run, programs, environment, answer, without
) -> None:
    write(programs / "sudo", SUDO)
    if without:
        (programs / without).unlink()
    assert detect(run, programs, "echo one; echo; echo two", **environment) == answer


def test_without_sudo_nothing_runs(run, programs) -> None:
    assert detect(run, programs, "echo one", FAKE_UID="1000") == RightedOutput("nosudo", ())


def test_a_banner_before_the_answer_is_left_out(run, programs) -> None:
    output = run("-c", Detection().command(), stdin="echo one", path=str(programs), FAKE_UID="0")
    assert Detection().process(["Welcome", *output]) == RightedOutput("root", ("one",))


def test_a_packed_answer_that_is_cut_off_is_what_came(run, programs) -> None:
    script = "i=0; while [ $i -lt 9999 ]; do echo $i; i=$((i + 1)); done"
    first, *packed = run("-c", Detection().command(), stdin=script, path=str(programs), FAKE_UID="0")
    cut = Detection().process([first, *packed[: len(packed) // 2], packed[-1][:7]])
    assert cut is not None
    assert cut.output[:3] == ("0", "1", "2")
    assert len(cut.output) < 9999


def test_a_packed_answer_that_is_none_is_refused() -> None:
    with pytest.raises(SnapshotError, match="cannot be unpacked"):
        Detection().process(["numaforge-right root packed", "bm9uc2Vuc2U="])
