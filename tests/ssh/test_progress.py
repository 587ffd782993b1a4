"""While a host works, a terminal shows what it does and since when; a pipe gets no such line."""

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import data
from tests.ssh.sandbox import REPOSITORY, Sandbox
from tests.ssh.site_runs import inventory
from tests.ssh.transactions import HOLD, hold

PATIENCE_SECONDS = 120
NUMAFORGE = (sys.executable, "-m", "numaforge")
PYINFRA = (str(Path(sys.executable).with_name("pyinfra")),)
COMMANDS = {
    "apply, its preparation": (*NUMAFORGE, "apply", "-y", "INVENTORY"),
    "capture": (*NUMAFORGE, "capture", "--to", "FOLDER", "INVENTORY"),
    "rehearse": (*NUMAFORGE, "rehearse", "INVENTORY"),
    "verify": (*NUMAFORGE, "verify", "INVENTORY"),
}


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return start_kubelet(start_sandbox(kubeadm_files(port)), port)


@contextmanager
def on_a_terminal(words: Sequence[str], node: Sandbox, folder: Path) -> Iterator[tuple[int, Any]]:
    """Run a command over the node on a terminal; yield its file descriptor and the process."""
    file = inventory(folder, data(node))
    named = {"INVENTORY": str(file), "FOLDER": str(folder / "snapshots")}
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [named.get(word, word) for word in words],
        cwd=REPOSITORY,
        env={**environment, "HOME": str(folder), "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        try:
            yield ours, process
        finally:
            node.path("/run/go").touch()
            process.kill()
            os.close(ours)


def seconds_shown(terminal: int, line: str) -> set[str]:
    """Read a terminal until a line has shown three different times, and return them."""
    shown, times = "", set[str]()
    while len(times) < 3:
        readable, _, _ = select.select([terminal], [], [], PATIENCE_SECONDS)
        assert readable, shown
        shown += os.read(terminal, 65536).decode(errors="replace")
        times = {*re.findall(line, shown)}
    return times


@pytest.mark.variants(2)
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_elapsed_time_advances_while_a_host_does_not_answer(words, node, tmp_path):
    node.log_in_with(HOLD)
    with on_a_terminal(words, node, tmp_path) as (terminal, process):
        assert seconds_shown(terminal, r"(?:looking|asking|rehearsing|verifying)[\w ]+, (\d+) s")
        assert process.poll() is None


@pytest.mark.long
@cases(
    "words",
    {
        "apply": (*NUMAFORGE, "apply", "-y", "INVENTORY"),
        "pyinfra, as for an uninstall": (*PYINFRA, "-y", "INVENTORY", "deploys/site.py"),
    },
)
def test_step_and_elapsed_time_are_shown_during_a_change(words, node, tmp_path):
    hold(node)
    with on_a_terminal(words, node, tmp_path) as (terminal, process):
        assert seconds_shown(terminal, r"changing the hosts, (\d+) s: node apply files")
        node.path("/run/go").touch()
        end = b""
        while b"changed" not in end.rpartition(b"changing the hosts")[2]:
            readable, _, _ = select.select([terminal], [], [], PATIENCE_SECONDS)
            assert readable, end.decode()
            end += os.read(terminal, 65536)
        assert process.wait(PATIENCE_SECONDS) == 0
