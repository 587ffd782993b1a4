"""How the suite reaches hosts: over SSH as all of numaforge does, with a limit on what a host sends."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import testinfra
from paramiko import SSHClient, SSHException, Transport
from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from numaforge.lib.bounded import Allowance
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.ssh import DATA, ask_openssh, connect, destination_of

SILENT_SECONDS = 15
"""After so long without output a host is asked for a sign of life, which may take as long again."""
_CHUNK = 2**16


@dataclass(frozen=True)
class ReachedHost:
    """A host by its name; `data` are its host data for SSH, None for this machine."""

    name: str
    data: Mapping[str, Any] | None = field(default=None)

    @property
    def id(self) -> str:
        """Its name in the suite's report."""
        return "local" if self.data is None else f"ssh://{self.name}"


def reached_host(name: str, connector: str, data: Mapping[str, Any]) -> ReachedHost:
    """Return how to reach a host, by pyinfra's connector; raises HostError where the suite has no way."""
    if connector == "LocalConnector":
        return ReachedHost(name)
    if connector != "OpenSshConnector":
        raise HostError(
            f"the verification suite does not know how to reach a host over {connector}",
            where=name,
            remedy="reach it over SSH, or go without it: verify: False in numaforge_rollout",
        )
    return ReachedHost(name, {key: data[key] for key in DATA if data.get(key) is not None})


def write_hosts(hosts: Iterable[ReachedHost], file: Path) -> None:
    """Write the file for --reach; it may hold passwords."""
    document = {"silent_seconds": SILENT_SECONDS, "hosts": [asdict(host) for host in hosts]}
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        json.dump(document, opened, default=str)


def read_hosts(file: Path) -> list[Host]:
    """Return testinfra's hosts for a file of `write_hosts`."""
    document = json.loads(file.read_text(encoding="utf-8"))
    hosts = [ReachedHost(**host) for host in document["hosts"]]
    ask_openssh((host.name, host.data) for host in hosts if host.data is not None)
    return [
        testinfra.get_host("local://")
        if host.data is None
        else Host(_SshBackend(host, document["silent_seconds"]))
        for host in hosts
    ]


class _SshBackend(BaseBackend):  # type: ignore[misc] # testinfra has no types
    """One connection to a host, for all of the suite's commands."""

    NAME = "ssh"

    def __init__(self, host: ReachedHost, silent_seconds: float) -> None:
        super().__init__(host.name)
        self._reached = host
        self._silent_seconds = silent_seconds
        self._encoding = "utf-8"  # testinfra would ask a Python on the host

    @cached_property
    def _client(self) -> SSHClient:
        data = self._reached.data or {}
        return connect(destination_of(self._reached.name, data), data)

    def run(self, command: str, *args: str, **_: Any) -> CommandResult:
        """Run a command; raises HostError where the host refuses, or does not answer to the end."""
        words = self.get_command(command, *args).encode("utf-8", "surrogateescape")
        try:
            code, out, err = self._run(words)
        except (SSHException, OSError, EOFError) as error:
            raise HostUnreachableError(f"did not answer: {error}") from error
        return self.result(code, words, out, err)

    def _run(self, words: bytes) -> tuple[int, bytes, bytes]:
        transport = self._client.get_transport()
        if transport is None:
            raise HostUnreachableError("the connection was cut")
        opened = transport.open_session(timeout=self._silent_seconds)
        with ThreadPoolExecutor(1) as pool, opened as channel:  # closing the channel ends the thread
            channel.exec_command(words)
            channel.settimeout(self._silent_seconds)
            allowance = Allowance()
            errors = pool.submit(_received, channel.recv_stderr, allowance, lambda: None)
            output = _received(channel.recv, allowance, partial(self._see_alive, transport))
            code, err = channel.recv_exit_status(), errors.result()
        if code < 0:
            raise HostUnreachableError("the connection was cut")
        return code, output, err

    def _see_alive(self, transport: Transport) -> None:
        """Raise SSHException where the host opens no other channel, either."""
        transport.open_session(timeout=self._silent_seconds).close()


def _received(receive: Callable[[int], bytes], allowance: Allowance, in_silence: Callable[[], None]) -> bytes:
    """Return all that a channel sends on one of its streams, which share SSH's window."""
    parts: list[bytes] = []
    while True:
        try:
            part = receive(_CHUNK)
        except TimeoutError:
            in_silence()
            continue
        if not part:
            return b"".join(parts)
        parts.append(allowance.spend(part))
