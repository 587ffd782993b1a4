"""Who rolls out: a name for this process that no other process anywhere has."""

from __future__ import annotations

import getpass
import os
import re
import socket
from pathlib import Path

_NAME = re.compile(r"(?P<owner>.*)@(?P<host>[^@/]*)/(?P<boot>[^/]*)/(?P<pid>\d+)\.(?P<start>\d*)")


def this_runner() -> str:
    """Return the name of this process: user@host/boot/PID.start."""
    pid = os.getpid()
    return f"{_user()}@{socket.gethostname()}/{_boot()}/{pid}.{_start(pid)}"


def owner_of(runner: str) -> str:
    """Return the person and the machine in a runner's name, for people to read."""
    return runner.split("/", 1)[0]


def is_gone(runner: str) -> bool:
    """Say whether a runner is certainly dead: a process of this machine that does not live any more."""
    found = _NAME.fullmatch(runner)
    if not found or found["host"] != socket.gethostname():
        return False
    return found["boot"] != _boot() or _start(int(found["pid"])) != found["start"]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def _boot() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text().strip()[:8] if boot.exists() else ""


def _start(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; "" where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
