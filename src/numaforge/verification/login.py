"""How the suite reaches a host that pyinfra reaches: its name for testinfra, and its settings for ssh."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from numaforge.errors import HostError

WITHOUT = "or go without it: verify: False in numaforge_rollout"
_SSH_OPTIONS = {
    "ssh_hostname": "HostName",
    "ssh_port": "Port",
    "ssh_user": "User",
    "ssh_key": "IdentityFile",
    "ssh_known_hosts_file": "UserKnownHostsFile",
    "ssh_strict_host_key_checking": "StrictHostKeyChecking",
}
_OWN_CONFIG = "ssh_config_file"
CONNECT_SECONDS = 30
"""How long ssh waits for a connection, including a jump host's, and for the server's banner."""
SIGNS_OF_LIFE = {"ConnectTimeout": CONNECT_SECONDS, "ServerAliveInterval": 15, "ServerAliveCountMax": 3}
"""Options of ssh, with which it notices within a minute that a host has lost power without closing TCP."""
CONNECTION_DATA = (*_SSH_OPTIONS, _OWN_CONFIG)
"""The pyinfra host data that determine a login."""


@dataclass(frozen=True)
class Login:
    """A host's name for testinfra, its section of an ssh_config, and the admin's own ssh_config, if any.

    The section is empty for a host that is not reached by ssh.
    """

    host: str
    section: str = ""
    own_config: Path | None = None


def login(name: str, connector: str, data: Mapping[str, object]) -> Login:
    """Return how to reach a host, from the name of pyinfra's connector and the host's data.

    Raises HostError where the suite has no way to reach it.
    """
    if connector == "LocalConnector":
        return Login("local://")
    if connector != "SSHConnector":
        raise HostError(
            f"the verification suite does not know how to reach a host over {connector}",
            where=name,
            remedy=f"reach it over SSH, {WITHOUT}",
        )
    lines = [f"Host {name}"]
    for key, option in _SSH_OPTIONS.items():
        if (value := data.get(key)) is not None:
            lines.append(f"    {option} {_ssh_quoted(str(value))}")
    if data.get("ssh_key"):
        lines.append("    IdentitiesOnly yes")
    lines += ["    BatchMode yes", "    LogLevel ERROR"]
    own = Path(str(data.get(_OWN_CONFIG) or "~/.ssh/config")).expanduser()
    return Login(f"ssh://{name}", "\n".join(lines), own.resolve() if own.exists() else None)


def ssh_config(logins: Iterable[Login]) -> str:
    """Return the ssh_config with which ssh reaches these hosts; "" where none of them needs ssh.

    Raises HostError where this machine has no ssh.
    """
    over_ssh = [login for login in logins if login.section]
    if not over_ssh:
        return ""
    if shutil.which("ssh") is None:
        raise HostError("there is no program ssh on this machine", remedy="install OpenSSH's client")
    own = dict.fromkeys(login.own_config for login in over_ssh if login.own_config)
    includes = [f"    Include {_ssh_quoted(str(path))}" for path in own]
    alive = [f"    {option} {value}" for option, value in SIGNS_OF_LIFE.items()]
    # For every host, because a ProxyJump is looked up here, too. The first value of an option wins.
    return "\n".join([*(login.section for login in over_ssh), "Host *", *alive, *includes]) + "\n"


def _ssh_quoted(value: str) -> str:
    return f'"{value}"' if shlex.quote(value) != value else value
