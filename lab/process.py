"""Background processes that outlive the command that started them, and are never mistaken for another's."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.errors import LabError

_MARK = "NUMAFORGE_LAB_STATE"
"""What the environment of a daemon, and of all that it starts, names the state directory in."""
_GARBAGE = {"GOGC": "400"}
"""Programs in Go collect garbage less often: a sixth of the CPU time of a control plane that starts."""


@dataclass(frozen=True)
class _Recorded:
    """A process id and what tells its process from every other that ever had this id."""

    pid: int
    start_time: int | None
    """In clock ticks since the machine's boot; None for a process that ended before it could be read."""
    boot: str
    """The kernel's identifier of the boot."""

    def lives(self) -> bool:
        """Say whether the process is alive; reap it where this program started it."""
        if self.start_time is None or self.boot != _boot_id() or self.start_time != _start_time(self.pid):
            return False
        if not _is_zombie(self.pid):
            return True
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return False

    def ends_within(self, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if not self.lives():
                return True
            time.sleep(0.02)
        return False


@dataclass(frozen=True)
class Daemon:
    """A process of the lab, known by a file below `<state>/run`.

    Process ids are reused. So the file also records when the process started and in which boot,
    and the process must still name the state directory in its command line before it is sent any signal.
    """

    name: str
    state: Path

    @property
    def record(self) -> Path:
        return self.state / "run" / f"{self.name}.json"

    @property
    def log(self) -> Path:
        return self.state / "log" / f"{self.name}.log"

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        standard_input: int = subprocess.DEVNULL,
    ) -> None:
        """Start the process in a session of its own, with its output in `log`."""
        if self.pid() is not None:
            raise LabError("is already running", where=self.name)
        inherited = os.environ if environment is None else environment
        self.record.parent.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                arguments,
                cwd=self.state,
                env={**_GARBAGE, **inherited, _MARK: str(self.state)},
                stdin=standard_input,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # During exec a process briefly has no environment.
        while not _is_marked(process.pid, self.state) and not _is_zombie(process.pid):
            time.sleep(0.002)
        recorded = _Recorded(process.pid, _start_time(process.pid), _boot_id())
        self.record.write_text(json.dumps(asdict(recorded)))
        # The process is meant to outlive us: keep Popen from complaining that it still runs.
        process.returncode = 0

    def pid(self) -> int | None:
        """Return the process id while the process lives."""
        found = self._recorded()
        if found is None or not found.lives():
            return None
        line = _command_line(found.pid)
        # During exec a process briefly has no command line.
        return found.pid if not line or str(self.state) in line else None

    def stop(self, grace_s: float = 10) -> None:
        """End the process, by force when it does not heed SIGTERM within `grace_s`; absent is fine."""
        found = self._recorded()
        if found is not None and self.pid() is not None:
            gently = [(signal.SIGTERM, grace_s)] if grace_s else []
            for number, patience_s in (*gently, (signal.SIGKILL, 10.0)):
                os.kill(found.pid, number)
                if found.ends_within(patience_s):
                    break
            else:
                raise LabError(f"process {found.pid} does not end", where=self.name)
        self.record.unlink(missing_ok=True)

    def _recorded(self) -> _Recorded | None:
        try:
            return _Recorded(**json.loads(self.record.read_text()))
        except (FileNotFoundError, json.JSONDecodeError, TypeError):
            return None

    def require_alive(self) -> None:
        """Raise with the end of the log when the process has ended."""
        if self.pid() is None:
            tail = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else "(no log)"
            raise LabError(f"has ended; the end of {self.log}:\n{tail}", where=self.name)


def living(state: Path) -> dict[int, str]:
    """Return every process that a daemon of this state directory is or has started, by id.

    Each has inherited the directory's name in its environment. So also those are found that have no record:
    the command that started them was killed at that moment, or the record is lost.
    """
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if pid != os.getpid() and _is_marked(pid, state) and not _is_zombie(pid):
            found[pid] = _command_line(pid).partition(" ")[0].rpartition("/")[2]
    return found


def end_living(state: Path, patience_s: float = 10) -> None:
    """End every process of this state directory by force, recorded or not."""
    deadline = time.monotonic() + patience_s
    while remaining := living(state):
        for pid in remaining:
            _kill_marked(pid, state)
        if time.monotonic() > deadline:
            raise LabError(f"processes {', '.join(map(str, remaining))} do not end", where=str(state))
        time.sleep(0.02)


def daemons(state: Path) -> list[Daemon]:
    """Return every process that this state directory has a record of."""
    return [Daemon(path.stem, state) for path in sorted((state / "run").glob("*.json"))]


def _is_marked(pid: int, state: Path) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # gone, or another user's
        return False
    return f"{_MARK}={state}".encode() in environment.split(b"\0")


def _kill_marked(pid: int, state: Path) -> None:
    """Kill a process by a descriptor: its id may belong to another one by now."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _is_marked(pid, state):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _start_time(pid: int) -> int | None:
    """Return when the process started, in clock ticks since the machine's boot."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _is_zombie(pid: int) -> bool:
    """Say whether the process has ended with all its threads: only then are its sockets closed."""
    fields = _stat(pid)
    return not fields or (fields[0] in "ZX" and int(fields[17]) <= 1)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
