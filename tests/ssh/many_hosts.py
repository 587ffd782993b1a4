"""Many hosts behind one sshd of a sandbox: each has an address of its own in 127.0.0.0/8."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.ssh.sandbox import SSHD, Sandbox, free_port

TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Listener:
    """An sshd that listens on every address of loopback."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU time of all sessions that have ended."""
        deadline = time.monotonic() + 20
        while Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text():
            if time.monotonic() > deadline:
                raise RuntimeError("a session goes on")
            time.sleep(0.02)
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICK


def address(number: int) -> str:
    """Return where a host is reached."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def listening(sandbox: Sandbox, count: int, name: str, more: str = "") -> Listener:
    """Start an sshd for so many hosts, with more lines for its configuration, which has a name."""
    port = free_port()
    sandbox.path(f"/etc/ssh/{name}").write_text(
        sandbox.path("/etc/ssh/sandbox_config")
        .read_text()
        .replace(f"ListenAddress 127.0.0.1:{sandbox.port}", f"ListenAddress 0.0.0.0:{port}")
        .replace("PidFile none", f"PidFile /run/{name}.pid")
        + f"AllowUsers root@127.*\nMaxStartups {2 * count + 10}\n{more}"
    )
    started = sandbox.run(f"{SSHD} -f /etc/ssh/{name}", own_network=False)
    if started.returncode:
        raise RuntimeError(started.stderr)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for child in children(sandbox.pid):
            if name.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                return Listener(port, child)
        time.sleep(0.05)
    raise RuntimeError(f"no sshd on port {port}")


def know(sandbox: Sandbox, listeners: Iterable[Listener], count: int) -> None:
    """Have the hosts' keys known to who logs in."""
    known = (sandbox.keys / "host.pub").read_text()
    lines = (
        f"[{address(number)}]:{each.port} {known}" for each in listeners for number in range(1, count + 1)
    )
    (sandbox.keys / "known_hosts").write_text("".join(lines))


def children(pid: int | str = "self") -> set[int]:
    """Return the processes that a process has started."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found |= {int(child) for child in (task / "children").read_text().split()}
    return found
