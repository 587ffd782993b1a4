"""The runner: a name for this process that is unique everywhere."""

import getpass
import os
import re
import socket
from pathlib import Path

_NAME = re.compile(
    r".*@[^@/]*/[^/]*/(?P<boot>[^/]+)/(?P<namespace>[^/]+)/(?P<pid>[0-9]{1,9})\.(?P<start>[0-9]+)"
)
_MACHINE_CHARACTERS = 8


def this_runner() -> str:
    """Return this process's name: user@host/machine/boot/PID namespace/PID.start; "" for unknown parts."""
    pid = os.getpid()
    start, machine = _start(pid) or "", _text("/etc/machine-id")[:_MACHINE_CHARACTERS]
    return f"{_user()}@{socket.gethostname()}/{machine}/{_boot()}/{_namespace()}/{pid}.{start}"


def owner_of(runner: str) -> str:
    """Return the person and the machine in a runner's name, for people to read."""
    return runner.split("/", 1)[0]


def is_gone(runner: str) -> bool:
    """Whether a runner is certainly dead, which only its own boot and PID namespace show."""
    match = _NAME.fullmatch(runner)
    if not match or (match["boot"], match["namespace"]) != (_boot(), _namespace()):
        return False
    pid = int(match["pid"])
    start = _start(pid)
    return start != match["start"] if start is not None else not _process_exists(pid)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def _boot() -> str:
    return _text("/proc/sys/kernel/random/boot_id")


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    """Return the inode of this process's PID namespace; "" where /proc belongs to another namespace."""
    try:
        if Path("/proc/self").readlink() != Path(str(os.getpid())):
            return ""
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _start(pid: int) -> str | None:
    """Return a process's start time in the kernel's ticks: "" for a zombie, None where it is not visible."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _process_exists(pid: int) -> bool:
    """Whether there is such a process: /proc may hide other users' processes (hidepid)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
