"""The verification suite, run against one host before its node returns to service."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge import bounded
from numaforge.errors import ExitCode, HostError, HostUnreachableError
from numaforge.hosts import roles_of
from numaforge.verification import suite
from numaforge.verification.login import CONNECT_SECONDS, WITHOUT, Login, login, ssh_config

if TYPE_CHECKING:
    from pyinfra.api import Host

    from numaforge.rollout.steps import Steps

_POLL_SECONDS = 0.5
_LONGEST_SECONDS = 600
_LOGIN_SECONDS = 2 * CONNECT_SECONDS  # ConnectTimeout does not cover authentication


@dataclass(frozen=True)
class Verification:
    """How the suite logs in to a host, and the roles whose promises it tests."""

    login: Login
    roles: tuple[str, ...]

    def refuse_unreachable(self) -> None:
        """Log in as the suite will, so that no node is drained that cannot be verified.

        Raises HostError with ssh's message.
        """
        if not self.login.section:
            return
        name = self.login.host.removeprefix("ssh://")
        with tempfile.NamedTemporaryFile("w", prefix="numaforge-", encoding="utf-8") as config:
            config.write(ssh_config([self.login]))
            config.flush()
            command = ["ssh", "-F", config.name, "--", name, ":"]
            try:
                done = bounded.run(command, where=self.login.host, timeout=_LOGIN_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise HostError(f"ssh has not logged in within {_LOGIN_SECONDS} s") from error
            except FileNotFoundError as error:
                raise HostError(
                    "the verification suite needs the program ssh", remedy=f"install it, {WITHOUT}"
                ) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            why = said[-1] if said else f"ssh ended with {done.returncode}"
            raise HostError(
                f"the verification suite cannot log in: {why}",
                remedy=f"let ssh in without a question, by a key or an agent, {WITHOUT}",
            )

    def run(self) -> Steps[tuple[str, ...]]:
        """Return each failed test, with its first line.

        Raises HostUnreachableError where the host did not answer.
        """
        with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
            config, report = Path(folder, "ssh_config"), Path(folder, "report.xml")
            config.write_text(ssh_config([self.login]), encoding="utf-8")
            arguments = [*suite.reporting(report), f"--roles={','.join(self.roles)}"]
            with Path(folder, "output").open("w+", encoding="utf-8") as output:
                process = subprocess.Popen(
                    suite.command([self.login], config, *arguments),
                    env=suite.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                waited = 0.0
                while process.poll() is None:
                    if waited > _LONGEST_SECONDS:
                        process.kill()
                        return (f"the verification suite did not end within {_LONGEST_SECONDS} s",)
                    yield _POLL_SECONDS
                    waited += _POLL_SECONDS
                output.seek(0)
                said = output.read().strip().splitlines()
            found = suite.failures(suite.results(report)) if report.exists() else ()
        if process.returncode == ExitCode.UNREACHABLE:
            raise HostUnreachableError(
                "the host does not answer the verification suite", where=self.login.host
            )
        if process.returncode and not found:
            return (f"the verification suite could not run: {said[-1] if said else process.returncode}",)
        return tuple(str(result) for result in found)


def verification_of(host: Host) -> Verification:
    """Return how the suite reaches a host.

    Raises HostError where the host is reached neither by SSH nor locally.
    """
    data = host.data.dict()  # type: ignore[no-untyped-call]
    return Verification(login(host.name, type(host.connector).__name__, data), roles_of(host))
