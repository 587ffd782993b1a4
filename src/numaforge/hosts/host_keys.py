"""Strict SSH host keys: by default pyinfra accepts and stores any unknown key.

OpenSSH asks in that case. A run over a fleet never asks: it refuses an unknown key, with the command that
accepts it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from paramiko import BadHostKeyException, HostKeys, MissingHostKeyPolicy, PKey, SSHException
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey
from pyinfra.connectors.sshuserclient import client

from numaforge.hosts.connection import transport

SETTING = "ssh_strict_host_key_checking"
SYSTEM_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
"""The files that hold host keys for every user of this machine (ssh_config(5), GlobalKnownHostsFile)."""
HOST_KEY = "host key"
"""Part of every message about a host key."""

_NUMBERED = re.compile(r"\[Errno (-?\d+|None)\] ")
_HASHED = "|1|"
_REFUSED_BY = (None, "ask", "yes")
_SshClient: Any = client.SSHClient
_policy_of_pyinfra: Any = client.get_missing_host_key_policy
_read_host_keys: Any = client.get_host_keys
_append_host_key: Any = client.append_hostkey


def why_refused(said: str) -> str:
    """Return pyinfra's message for a failed connection, without its prefix for every SSH error.

    The error number is removed, too, and so is the placeholder where it has none.
    """
    if HOST_KEY in said:  # the host was reached: address, port and user are right
        return said.removeprefix("SSH error ").removeprefix("(").removesuffix(")")
    return _NUMBERED.sub("", said)


class StrictClient(_SshClient):  # type: ignore[misc]
    """pyinfra's client that also knows the machine's own host keys, and explains what is wrong with a key."""

    def connect(self, hostname: str, **options: Any) -> None:
        """Connect; raises SSHException for an unknown host key, or one that differs from the known key."""
        try:
            super().connect(hostname, **{"transport_factory": transport, **options})
        except BadHostKeyException as error:
            raise SSHException(_changed(self._hostkey_name(error.hostname), error)) from error

    def _hostkey_name(self, hostname: str) -> str:
        port = int(self._ssh_config.get("port", 22))
        return hostname if port == 22 else f"[{hostname}]:{port}"


class KeysByName(HostKeys):
    """The keys of known_hosts by name, parsed only for the hosts that are looked up.

    paramiko's own class compares every name with all others while it reads a file, parses the key of every
    line, and searches all of them for each connection: with thousands of hosts that is most of a run. Hashed
    names (HashKnownHosts) must still be tried one by one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._named: dict[str, list[str]] = defaultdict(list)
        self._hashed: dict[str, list[str]] = defaultdict(list)
        self._revoked: set[str] = set()

    @property
    def _added(self) -> list[HostKeyEntry]:
        """The entries that paramiko itself has added since."""
        entries: list[HostKeyEntry] = vars(self)["_entries"]
        return entries

    def load(self, filename: Any) -> None:
        """Read a file as sshd(8) describes it; keys on lines marked `@revoked` belong to no host."""
        for line in Path(filename).read_text(encoding="utf-8", errors="replace").splitlines():
            match line.split():
                case ["@revoked", _, _, key, *_]:
                    self._revoked.add(key)
                case [names, kind, key, *_] if names[0] not in "#@":
                    for name in names.split(","):
                        lines = self._hashed if name.startswith(_HASHED) else self._named
                        lines[name].append(f"{names} {kind} {key}")

    def lookup(self, hostname: str) -> Any:
        """Return the keys of a host by type; None where it has none."""
        lines = [*self._named.get(hostname, ())]
        for name, of_name in self._hashed.items():
            if _is_hash_of(name, hostname):
                lines += of_name
        found: Any = HostKeys()
        of_lines = (_entry(line) for line in lines if line.split()[2] not in self._revoked)
        found._entries = [*filter(None, of_lines), *self._added]
        return found.lookup(hostname)

    def has_revoked(self, key: PKey) -> bool:
        """Return whether a key is marked as revoked."""
        return key.get_base64() in self._revoked


def _is_hash_of(hashed: str, name: str) -> bool:
    try:
        return HostKeys.hash_host(name, hashed) == hashed
    except (ValueError, LookupError, AssertionError):  # not a hash as ssh writes it
        return False


def _entry(line: str) -> HostKeyEntry | None:
    """Return a line's entry; None for a key that is unreadable or of an unknown type."""
    try:
        return HostKeyEntry.from_line(line)
    except (SSHException, InvalidHostKey, ValueError):
        return None


class _Refuse(MissingHostKeyPolicy):
    """Refuses an unknown key."""

    def missing_host_key(self, client: Any, hostname: str, key: PKey) -> None:
        raise SSHException(_unknown(hostname, key, client._host_keys_filename or "~/.ssh/known_hosts"))


class _UnlessRevoked(MissingHostKeyPolicy):
    """Refuses a revoked key; for any other key the requested policy decides."""

    def __init__(self, policy: MissingHostKeyPolicy) -> None:
        self._policy = policy

    def missing_host_key(self, client: Any, hostname: str, key: PKey) -> None:
        if client._host_keys.has_revoked(key):
            raise SSHException(f"the {HOST_KEY} of {hostname} is revoked: {_fingerprint(key)}")
        self._policy.missing_host_key(client, hostname, key)


def policy(said: str | None) -> MissingHostKeyPolicy:
    """Return the policy for unknown keys, by its name in the host data or in ssh_config."""
    return _UnlessRevoked(_Refuse() if said in _REFUSED_BY else _policy_of_pyinfra(said))


def known(files: Iterable[str]) -> Any:
    """Return the keys of the existing files, and the machine's own.

    pyinfra warns about each missing file, for every host.
    """
    return _read_host_keys(tuple(file for file in (*files, *SYSTEM_FILES) if Path(file).exists()))


def append(client: Any, hostname: str, key: PKey) -> None:
    """Store an accepted key, even where no key was stored before."""
    if client._host_keys_filename:
        Path(client._host_keys_filename).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _append_host_key(client, hostname, key)


def _unknown(name: str, key: PKey, file: str) -> str:
    return (
        f"the {HOST_KEY} of {name} is not known: {_fingerprint(key)}. Compare that with `ssh-keygen -lf "
        f"/etc/ssh/ssh_host_{_short(key)}_key.pub` on the host, then log in once with ssh, or run "
        f"`{_scan(name)} >> {file}`; "
        f'{SETTING} = "accept-new" in group_data accepts the first key of every host'
    )


def _changed(name: str, error: BadHostKeyException) -> str:
    return (
        f"the {HOST_KEY} of {name} is not the known one: {_fingerprint(error.key)}, "
        f"known is {_fingerprint(error.expected_key)}. "
        f"Either it was installed anew, or this is another machine. If you know that it is the right one: "
        f"`ssh-keygen -R '{name}'`, then `{_scan(name)} >> ~/.ssh/known_hosts`"
    )


def _scan(name: str) -> str:
    host, _, port = name.removeprefix("[").partition("]:")
    return f"ssh-keyscan -p {port} {host}" if port else f"ssh-keyscan {host}"


def _short(key: PKey) -> str:
    return key.get_name().removeprefix("ssh-").partition("-")[0]


def _fingerprint(key: PKey) -> str:
    """Return a key's fingerprint as OpenSSH prints it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"
