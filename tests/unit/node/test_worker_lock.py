"""The lock of what changes GPUs: for root alone, and never waited for without a limit."""

import fcntl
import subprocess
import sys
from pathlib import Path

ONCE = """
import sys
from numaforge.node import worker
worker.LOCK_SECONDS = 0
def do():
    with worker.alone(sys.argv[1]):
        print("alone")
worker.run_to_status(do)
"""


def once(lock: Path) -> subprocess.CompletedProcess[str]:
    ended = ONCE.replace("run_to_status(do)", 'run_to_status(lambda _: do(), "apply")')
    return subprocess.run(
        [sys.executable, "-c", ended, str(lock)], capture_output=True, text=True, check=False
    )


def test_lock_folder_is_accessible_only_to_root(tmp_path: Path) -> None:
    lock = tmp_path / "numaforge" / "mig.lock"
    assert once(lock).stdout == "alone\n"
    assert lock.parent.stat().st_mode & 0o777 == 0o700


def test_lock_held_by_another_process_is_named_after_a_limit(tmp_path: Path) -> None:
    lock = tmp_path / "mig.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = once(lock)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"another process has worked on these GPUs for 0 s: fuser -v {lock} names it\n"
    assert once(lock).stdout == "alone\n"
