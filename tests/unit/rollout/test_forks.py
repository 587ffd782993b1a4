"""Runs forked from a process that has imported what they need: they are as runs of their own would be."""

import atexit
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY
from numaforge.lib.errors import NumaforgeError
from numaforge.rollout.forks import Fork, Forks, forks, serve
from tests.fixtures.processes import Hold, await_release, gone_within, kill_tree, writing_below

REFUSE = "TEST_REFUSE_FORK"
TELL = "tell"
WAIT = "wait"


def run() -> int:
    """What runs: it tells of itself, or waits while a file is held."""
    what, *rest = sys.argv[1:]
    if what == TELL:
        about = {
            "rest": rest,
            "folder": str(Path.cwd()),
            "path": sys.path[0],
            "value": os.environ.get("VALUE"),
        }
        descriptors = [str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in (0, 1, 2)]
        leads = os.getsid(0) == os.getpid()
        atexit.register(print, "ends")
        print(json.dumps({**about, "descriptors": descriptors, "leads": leads, "home": "HOME" in os.environ}))
        return 7
    print("waits", flush=True)
    await_release(Path(rest[0]))
    Path(rest[1]).write_text("done")
    raise RuntimeError("a mistake of its own")


@pytest.fixture
def ours() -> Forks:
    return Forks(__name__)


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """What a run waits for; afterwards none is left."""
    with Hold(tmp_path / "hold") as hold:
        yield hold
    assert gone_within(lambda: writing_below(tmp_path))


def ended(process: Fork) -> int:
    code: int = within(process.poll)
    return code


def within(found: Callable[[], Any], seconds: float = 60) -> Any:
    """Return what is found at last."""
    deadline = time.monotonic() + seconds
    while (value := found()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return value


def told(ours: Forks, tmp_path: Path, *rest: str) -> dict[str, Any]:
    log = tmp_path / "log"
    log.write_text("before\n")
    process = ours.start([TELL, *rest], {"VALUE": "ä 1"}, tmp_path, log)
    assert (ended(process), process.poll()) == (7, 7)
    before, line, last = log.read_text().splitlines()
    assert (before, last) == ("before", "ends")
    found: dict[str, Any] = json.loads(line)
    return found


def test_run_has_own_arguments_environment_folder_and_log(ours, tmp_path):
    assert told(ours, tmp_path, "a b", "'") == {
        "rest": ["a b", "'"],
        "folder": str(tmp_path),
        "path": str(tmp_path),
        "value": "ä 1",
        "home": False,
        "descriptors": [os.devnull, str(tmp_path / "log"), str(tmp_path / "log")],
        "leads": True,
    }


def test_concurrent_runs_are_reported_separately(ours, hold, tmp_path):
    log = tmp_path / "log"
    first = ours.start([WAIT, str(hold.path), str(tmp_path / "end")], dict(os.environ), tmp_path, log)
    other = tmp_path / "other"
    other.mkdir()
    told(ours, other)
    assert first.poll() is None
    hold.release()
    assert ended(first) == 1
    assert "RuntimeError: a mistake of its own" in log.read_text()


def test_killed_run_ends_by_signal(ours, hold, tmp_path):
    process = ours.start([WAIT, str(hold.path), "never"], {}, tmp_path, tmp_path / "log")
    process.kill()
    assert ended(process) == -signal.SIGKILL
    process.kill()


def asking(log: Path, *arguments: str, then: str, first: str = "") -> subprocess.Popen[str]:
    """Start a process that asks for a run, says which processes there are now, and does something."""
    asks = (
        "import os, time; from pathlib import Path; from numaforge.rollout.forks import Forks\n"
        "from tests.fixtures.processes import Hold\n"
        f"{first}forks = Forks({__name__!r})\n"
        f"run = forks.start({[*arguments]!r}, {{}}, Path({str(REPOSITORY)!r}), Path({str(log)!r}))\n"
        "print(forks.pid, run.pid, flush=True)\n"
        f"{then}"
    )
    command = [sys.executable, "-c", asks]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    within(lambda: (log.exists() and "waits" in log.read_text()) or None)
    return process


def alive(pids: Iterable[int]) -> list[int]:
    """Return which processes are there, without those that have ended and whose parent has not asked how."""
    return [pid for pid in pids if _state(pid) not in ("", "Z")]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def started(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes of `asking`."""
    return [process.pid, *map(int, process.stdout.readline().split())]


def test_run_continues_after_its_requester_has_ended(hold, tmp_path):
    end = tmp_path / "end"
    with asking(tmp_path / "log", WAIT, str(hold.path), str(end), then="os.kill(os.getpid(), 9)") as asked:
        assert asked.wait() == -signal.SIGKILL
    hold.release()
    assert within(lambda: end.exists() or None)


def test_killing_a_run_kills_its_descendants(hold, tmp_path):
    with asking(tmp_path / "log", WAIT, str(hold.path), "never", then="time.sleep(600)") as asked:
        processes = started(asked)
        assert alive(processes) == processes
        kill_tree(asked)
        assert gone_within(lambda: alive(processes))


def test_run_held_by_a_test_ends_with_the_test_process(tmp_path):
    own = tmp_path / "own"
    then = "os.kill(os.getpid(), 9)"
    holding = f"hold = Hold(Path({str(own)!r})); "
    own.touch()
    with asking(tmp_path / "log", WAIT, str(own), str(tmp_path / "end"), then=then, first=holding) as asked:
        processes = started(asked)
        assert gone_within(lambda: alive(processes))


def test_terminal_interrupt_reaches_only_the_requester(ours, tmp_path):
    assert os.getsid(ours.pid) != os.getsid(0)


def test_run_state_is_unknown_after_fork_server_dies(ours, hold, tmp_path):
    process = ours.start([WAIT, str(hold.path), "never"], {}, tmp_path, tmp_path / "log")
    os.kill(ours.pid, signal.SIGKILL)
    with pytest.raises(NumaforgeError, match="the process that starts runs of pyinfra has ended"):
        process.poll()
    os.kill(process.pid, signal.SIGKILL)


def test_dead_fork_server_is_replaced(tmp_path):
    first = forks()
    assert forks() is first
    os.kill(first.pid, signal.SIGKILL)
    within(lambda: None if first.is_there else True)
    assert forks() is not first


def test_failed_fork_names_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv(REFUSE, "1")
    refused = Forks(__name__)
    with pytest.raises(OSError, match="Resource temporarily unavailable"):
        refused.start([TELL], {}, tmp_path, tmp_path / "log")


def refuse() -> int:
    """Fork as a kernel does that has no process left: root has no limit of its own that would show it."""
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


if __name__ == "__main__":
    if REFUSE in os.environ:
        os.fork = refuse
    serve(run)
