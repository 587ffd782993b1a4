"""The scripts of numaforge.run.hosts under the shells that hosts have."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from numaforge.lib import shell as scripts
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.lib.framing import Answer, asking
from numaforge.run.hosts.facts import AS_ROOT

Run = Callable[..., list[str]]

ID = '#!/bin/sh\necho "$FAKE_UID"\n'
SUDO = '#!/bin/sh\n[ "$1" = -n ] && [ -n "$MAY" ] || exit 1\nshift\nFAKE_UID=0 exec "$@"\n'


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


def detect(run: Run, programs: Path, script: str, **environment: str) -> Answer:
    return Answer.of(run("-c", AS_ROOT, stdin=asking(script), path=str(programs), **environment))


def righted(right: str, *lines: str) -> Answer:
    return Answer({"": lines, "right": (right,)})


@pytest.mark.parametrize(
    ("environment", "answer"),
    [
        ({"FAKE_UID": "0"}, righted("root", "one", "", "two")),
        ({"FAKE_UID": "1000", "MAY": "yes"}, righted("sudo", "one", "", "two")),
        ({"FAKE_UID": "1000"}, righted("password")),
    ],
    ids=["root", "sudo-asks-for-nothing", "sudo-asks-for-a-password"],
)
@pytest.mark.parametrize("without", ["", "gzip", "base64"])
def test_script_runs_as_root_or_with_available_sudo(run, programs, environment, answer, without) -> None:
    write(programs / "sudo", SUDO)
    if without:
        (programs / without).unlink()
    assert detect(run, programs, "echo one; echo; echo two", **environment) == answer


def test_without_sudo_nothing_runs(run, programs) -> None:
    assert detect(run, programs, "echo one", FAKE_UID="1000") == righted("nosudo")


def test_banner_before_the_answer_is_skipped(run, programs) -> None:
    output = run("-c", AS_ROOT, stdin=asking("echo one"), path=str(programs), FAKE_UID="0")
    assert Answer.of(["Welcome", *output]) == righted("root", "one")


def test_truncated_packed_answer_is_refused(run, programs) -> None:
    script = asking("i=0; while [ $i -lt 9999 ]; do echo $i; i=$((i + 1)); done")
    output = run("-c", AS_ROOT, stdin=script, path=str(programs), FAKE_UID="0")
    half = len(output) // 2
    with pytest.raises(HostUnreachableError, match="cut off"):
        Answer.of([*output[:half], output[half][:7]])


def test_invalid_packed_answer_is_refused() -> None:
    with pytest.raises(HostError, match="cannot be unpacked"):
        Answer.of(["numaforge answers", "numaforge packed", "bm9uc2Vuc2U="])


def test_script_on_stdin_runs_like_any_other(shell) -> None:
    """It has its arguments, words, traps and the status of its last command; nothing is left for cat."""
    script = """printf '%s\\n' "$#" "$2" "it's \\$HOME \\\\"
cat
trap 'echo ended with $?' EXIT
(exit 7)
"""
    command = [*shell, "-s", "a b", "c"]
    done = subprocess.run(
        command, input=scripts.on_stdin(script), capture_output=True, text=True, check=False
    )
    said = ["2", "c", "it's $HOME \\", "ended with 7"]
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (said, "", 7)


def test_no_shell_reads_a_script_byte_by_byte(run) -> None:
    script = f": {'x' * 50_000}\nexec cat /proc/self/io\n"
    (reads,) = (line for line in run("-s", stdin=scripts.on_stdin(script)) if line.startswith("syscr: "))
    assert int(reads.removeprefix("syscr: ")) < 1000


def test_shell_that_only_claims_to_be_bash_loses_no_script_lines(run) -> None:
    script = f"echo begun\n: {'x' * 50_000}\necho ended\n"
    assert run("-s", stdin=scripts.on_stdin(script), BASH_VERSION="5.2") == ["begun", "ended"]
