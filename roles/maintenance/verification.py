"""The verification suite, run against one host as an admin would: pytest tests/node --hosts=..."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyinfra.api import Host
from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.ssh import SSHConnector

from numaforge.errors import HostError
from numaforge.hosts import roles_of
from numaforge.rollout.patience import AWAY_EXIT_CODE, HostAwayError
from numaforge.rollout.steps import Steps

REPOSITORY = Path(__file__).resolve().parents[2]
SUITE = Path("tests/node")
_POLL_SECONDS = 0.5
_LONGEST_SECONDS = 600
_CONNECT_SECONDS = 30
_LOGIN_SECONDS = 2 * _CONNECT_SECONDS  # ConnectTimeout ends before ssh asks who may log in
_WITHOUT = "or go without it: verify: False in numaforge_rollout"
_SSH_OPTIONS = {
    "ssh_hostname": "HostName",
    "ssh_port": "Port",
    "ssh_user": "User",
    "ssh_key": "IdentityFile",
    "ssh_known_hosts_file": "UserKnownHostsFile",
    "ssh_strict_host_key_checking": "StrictHostKeyChecking",
}


@dataclass(frozen=True)
class Verification:
    """How the suite reaches a host: testinfra's name of it, the text of an ssh_config, whether by sudo.

    Only what these `roles` have to see to is held against it.
    """

    name: str
    ssh_config: str
    sudo: bool
    roles: tuple[str, ...]

    def refuse_unreachable(self) -> None:
        """Log in as the suite will: a node is not drained to find out that its proof cannot be had.

        Raises HostError with what ssh says.
        """
        if not self.ssh_config:
            return
        name = self.name.removeprefix("ssh://")
        with tempfile.NamedTemporaryFile("w", prefix="numaforge-", encoding="utf-8") as config:
            config.write(self.ssh_config)
            config.flush()
            command = ["ssh", "-F", config.name, f"-oConnectTimeout={_CONNECT_SECONDS}", "--", name, ":"]
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=_LOGIN_SECONDS,
                )
            except subprocess.TimeoutExpired as error:
                raise HostError(f"ssh has not logged in within {_LOGIN_SECONDS} s") from error
            except FileNotFoundError as error:
                raise HostError(
                    "the verification suite needs the program ssh", remedy=f"install it, {_WITHOUT}"
                ) from error
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"ssh ended with {done.returncode}"]
            raise HostError(
                f"the verification suite cannot log in: {said[-1]}",
                remedy=f"let ssh in without a question, by a key or an agent, {_WITHOUT}",
            )

    def run(self) -> Steps[tuple[str, ...]]:
        """Return each test that fails, with its first line.

        Raises HostAwayError where the host did not answer.
        """
        with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
            config, report = Path(folder, "ssh_config"), Path(folder, "report.xml")
            config.write_text(self.ssh_config, encoding="utf-8")
            with Path(folder, "output").open("w+", encoding="utf-8") as output:
                suite = subprocess.Popen(
                    self._command(config, report), cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT
                )
                waited = 0.0
                while suite.poll() is None:
                    if waited > _LONGEST_SECONDS:
                        suite.kill()
                        return (f"the verification suite did not end within {_LONGEST_SECONDS} s",)
                    yield _POLL_SECONDS
                    waited += _POLL_SECONDS
                output.seek(0)
                said = output.read().strip().splitlines()
            failures = _failures(report) if report.exists() else ()
        if suite.returncode == AWAY_EXIT_CODE:
            raise HostAwayError("the host does not answer the verification suite", where=self.name)
        if suite.returncode and not failures:
            return (f"the verification suite could not run: {said[-1] if said else suite.returncode}",)
        return failures

    def _command(self, config: Path, report: Path) -> list[str]:
        return [
            *(sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"),
            *(str(SUITE), f"--hosts={self.name}", f"--junitxml={report}", f"--roles={','.join(self.roles)}"),
            *([f"--ssh-config={config}"] if self.ssh_config else []),
            *(["--sudo"] if self.sudo else []),
        ]


def verification_of(host: Host) -> Verification:
    """Return how the suite reaches a host.

    Raises HostError where it cannot: it is not installed, or the host is reached neither by SSH nor locally.
    """
    if not (REPOSITORY / SUITE).is_dir():
        raise HostError(
            "the verification suite is not here", remedy=f"run from numaforge's repository, {_WITHOUT}"
        )
    sudo = bool(host.data.get("_sudo"))
    if isinstance(host.connector, LocalConnector):
        return Verification("local://", "", sudo, roles_of(host))
    if isinstance(host.connector, SSHConnector):
        data = host.data.dict()  # type: ignore[no-untyped-call]
        return Verification(f"ssh://{host.name}", _ssh_config(host.name, data), sudo, roles_of(host))
    raise HostError(
        f"the verification suite does not know how to reach a host over {type(host.connector).__name__}",
        remedy=f"reach it over SSH, {_WITHOUT}",
    )


def _ssh_config(name: str, data: Mapping[str, object]) -> str:
    """Return what ssh needs to know of a host that pyinfra reaches with this data."""
    lines = [f"Host {name}"]
    for key, option in _SSH_OPTIONS.items():
        if (value := data.get(key)) is not None:
            lines.append(f"    {option} {_quoted(str(value))}")
    if data.get("ssh_key"):
        lines.append("    IdentitiesOnly yes")
    lines += ["    BatchMode yes", "    LogLevel ERROR", "Host *"]
    own = data.get("ssh_config_file") or Path("~/.ssh/config").expanduser()
    if Path(str(own)).expanduser().exists():
        lines.append(f"    Include {_quoted(str(Path(str(own)).expanduser().resolve()))}")
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    return f'"{value}"' if shlex.quote(value) != value else value


def _failures(report: Path) -> tuple[str, ...]:
    found = []
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 (written by our own child)
        for kind in ("failure", "error"):
            problem = case.find(kind)
            if problem is not None:
                message = (problem.get("message") or "").strip().splitlines()
                found.append(f"{case.get('name')}: {message[0] if message else kind}")
    return tuple(found)
