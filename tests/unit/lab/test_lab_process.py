"""A background process is known by more than its id, so that no stranger is ever killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.process import Daemon, daemons, end_living, living


@pytest.fixture
def sleeper(tmp_path):
    """A daemon that sleeps and names the state directory in its command line, as all of the lab do."""
    daemon = Daemon("sleeper", tmp_path)
    daemon.start([sys.executable, "-c", "import time; time.sleep(600)", str(tmp_path)])
    yield daemon
    daemon.stop(grace_s=0)


@pytest.fixture
def stranger():
    """A process that is not of the lab."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def rewrite(daemon, **changes):
    facts = json.loads(daemon.record.read_text()) | changes
    daemon.record.write_text(json.dumps(facts))


def test_a_started_process_is_found_by_its_record(sleeper):
    assert [daemon.pid() for daemon in daemons(sleeper.state)] == [sleeper.pid()]
    assert sleeper.pid() is not None


def test_stopping_a_process_removes_its_record(sleeper):
    pid = sleeper.pid()
    sleeper.stop()
    assert sleeper.pid() is None
    assert not sleeper.record.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_ignores_sigterm_is_killed(tmp_path):
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    code = f"{ignore}; print('deaf', flush=True); time.sleep(600)"
    daemon = Daemon("deaf", tmp_path)
    daemon.start([sys.executable, "-c", code, str(tmp_path)])
    while "deaf" not in daemon.log.read_text():
        daemon.require_alive()
    daemon.stop(grace_s=0.2)
    assert daemon.pid() is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"start_time": 1}, id="the id belongs to a process that started at another time"),
        pytest.param({"boot": "another"}, id="the record is from before a reboot"),
    ],
)
def test_mismatched_record_counts_as_not_running(sleeper, change):
    kept = sleeper.record.read_text()
    rewrite(sleeper, **change)
    assert sleeper.pid() is None
    sleeper.record.write_text(kept)


def test_process_with_a_recycled_pid_is_never_killed(sleeper, stranger):
    kept = sleeper.record.read_text()
    rewrite(sleeper, pid=stranger.pid)
    sleeper.stop()
    assert stranger.poll() is None
    sleeper.record.write_text(kept)


def test_process_not_naming_the_state_directory_is_never_killed(tmp_path, stranger):
    daemon = Daemon("stranger", tmp_path)
    fields = Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    daemon.record.parent.mkdir()
    daemon.record.write_text(json.dumps({"pid": stranger.pid, "start_time": int(fields[19]), "boot": boot}))
    daemon.stop()
    assert stranger.poll() is None


def test_end_of_the_log_gives_the_reason_a_process_ended(tmp_path):
    daemon = Daemon("short", tmp_path)
    daemon.start(["sh", "-c", "echo out of memory", str(tmp_path)])
    while daemon.pid() is not None:
        pass
    with pytest.raises(LabError, match="out of memory"):
        daemon.require_alive()


def test_a_second_start_is_refused(sleeper):
    with pytest.raises(LabError, match="already running"):
        sleeper.start(["true"])


def test_a_process_without_a_record_is_found_and_ended(sleeper):
    """As after a command that was killed before it wrote the record, or a folder that was deleted."""
    pid = sleeper.pid()
    sleeper.record.unlink()
    assert daemons(sleeper.state) == []
    assert list(living(sleeper.state)) == [pid]
    end_living(sleeper.state)
    assert living(sleeper.state) == {}


def test_children_of_a_dead_daemon_are_found(tmp_path):
    daemon = Daemon("parent", tmp_path)
    daemon.start(["sh", "-c", 'sleep 600 & echo "$!"; wait', str(tmp_path)])
    while not (line := daemon.log.read_text()).endswith("\n"):
        daemon.require_alive()
    child = int(line)
    while Path(f"/proc/{child}/comm").read_text() != "sleep\n":  # it is a shell until it has become one
        daemon.require_alive()
    daemon.stop(grace_s=0)
    assert living(tmp_path) == {child: "sleep"}
    end_living(tmp_path)
    assert living(tmp_path) == {}


def test_processes_of_another_state_directory_are_left_alone(sleeper, tmp_path):
    neighbour = tmp_path / "neighbour"
    neighbour.mkdir()
    end_living(neighbour)
    end_living(tmp_path.parent)
    assert sleeper.pid() is not None


def test_status_names_leftover_processes_of_a_stopped_lab(sleeper, tmp_path):
    answer = subprocess.run(
        [sys.executable, "-m", "lab", "status"],
        env=os.environ | {"NUMAFORGE_LAB_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "processes of it live on: sleeper; end them: make lab-down" in answer.stdout


def test_down_ends_leftover_processes(sleeper, tmp_path):
    down = [sys.executable, "-m", "lab", "down"]
    subprocess.run(down, env=os.environ | {"NUMAFORGE_LAB_DIR": str(tmp_path)}, check=True)
    assert living(tmp_path) == {}
