"""A script on a host over a real sshd: what it prints, how it fails, and a connection that is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, pyinfra

# The deploy runs each script with `reached`, and says how that ended.
_DEPLOY = """
from pyinfra import host, logger

from numaforge.errors import HostError
from numaforge.hosts import reached

for script in {scripts!r}:
    try:
        logger.info("answer %r", reached(host, script))
    except HostError as error:
        logger.info("%s %r", type(error).__name__, error.message)
"""
# Ends the sshd that the script runs under, as a network that drops the connection does.
_CUT = """
echo one
process=$$
while [ "$(cat /proc/$process/comm)" != sshd ]; do
    read -r _ _ _ process _ < /proc/$process/stat
done
kill -{signal} "$process"
sleep 1
echo two
"""


def reach(sandbox: Sandbox, folder: Path, *scripts: str, user: str = "root") -> list[str]:
    deploy = folder / "deploy.py"
    deploy.write_text(_DEPLOY.format(scripts=scripts))
    done = pyinfra(folder, {"node": sandbox.data(user)}, "-y", str(deploy))
    return [line.strip() for line in done.stdout.splitlines() if line.strip().startswith(("answer", "Host"))]


@pytest.fixture
def sandbox(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


ENDINGS = {
    "lines": ("echo one; echo two", "answer ['one', 'two']"),
    "nothing": (":", "answer []"),
    "an-empty-line": ("echo one; echo; echo two", "answer ['one', '', 'two']"),
    "no-end-of-line": ("printf one", "answer ['one']"),
    "it-leaves-early": ("echo one; exit 0; echo two", "answer ['one']"),
    "a-here-document": ("cat <<'END'\n$one\nEND", "answer ['$one']"),
    "a-complaint": ("echo one; echo two >&2; exit 3", "HostError 'two'"),
    "a-failure-without-a-word": ("exit 3", "HostError 'the script failed with 3'"),
}


def test_a_script_is_answered_with_its_lines_or_its_complaint(sandbox: Sandbox, tmp_path: Path) -> None:
    said = reach(sandbox, tmp_path, *(script for script, _ in ENDINGS.values()))
    assert dict(zip(ENDINGS, said, strict=True)) == {name: answer for name, (_, answer) in ENDINGS.items()}


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_a_connection_that_is_cut_is_no_script_that_failed_and_is_made_anew(
    sandbox: Sandbox, tmp_path: Path, signal: str
) -> None:
    said = reach(sandbox, tmp_path, _CUT.format(signal=signal), "echo back")
    assert said == ["HostAwayError 'the host does not answer: the connection was cut'", "answer ['back']"]


def test_half_a_script_does_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    (said,) = reach(sandbox, tmp_path, "touch /run/half\nif true; then")
    assert said.startswith("HostAwayError")
    assert not sandbox.path("/run/half").exists()
