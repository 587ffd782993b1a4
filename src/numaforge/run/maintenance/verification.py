"""The verification suite, run against one host before its node returns to service."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.errors import ExitCode, HostUnreachableError
from numaforge.run.hosts.roles import roles_of
from numaforge.verification import suite
from numaforge.verification.reach import ReachedHost, reached_host, write_hosts

if TYPE_CHECKING:
    from pyinfra.api import Host

    from numaforge.rollout.steps import Steps

_POLL_SECONDS = 0.5
_LONGEST_SECONDS = 600


class Verification(NamedTuple):
    """How the suite reaches a host, and the roles whose promises it tests."""

    host: ReachedHost
    roles: tuple[str, ...]

    def run(self) -> Steps[tuple[str, ...]]:
        """Return each failed test, with its first line; raises HostUnreachableError without an answer."""
        with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
            hosts, report = Path(folder, "hosts"), Path(folder, "report.xml")
            write_hosts([self.host], hosts)
            arguments = [*suite.reporting(report), f"--roles={','.join(self.roles)}"]
            with Path(folder, "output").open("w+", encoding="utf-8") as output:
                process = subprocess.Popen(
                    suite.command(hosts, *arguments),
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
                output_lines = output.read().strip().splitlines()
            failed = suite.failures(suite.results(report)) if report.exists() else ()
        if process.returncode == ExitCode.UNREACHABLE:
            raise HostUnreachableError("the host does not answer the verification suite", where=self.host.id)
        if process.returncode and not failed:
            end = output_lines[-1] if output_lines else process.returncode
            return (f"the verification suite could not run: {end}",)
        return tuple(str(result) for result in failed)


def verification_of(host: Host) -> Verification:
    """Return how the suite reaches a host; raises HostError for other ways than SSH and local."""
    data = host.data.dict()  # type: ignore[no-untyped-call]
    return Verification(reached_host(host.name, type(host.connector).__name__, data), roles_of(host))
