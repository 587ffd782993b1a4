"""A sandbox held to its plan by the verification suite."""

import subprocess
from pathlib import Path

from numaforge.verification import suite
from numaforge.verification.reach import reached_host, write_hosts
from numaforge.verification.suite import CaseResult
from tests.ssh.sandbox import Sandbox


def verified(node: Sandbox, folder: Path, *options: str) -> tuple[CaseResult, ...]:
    """Return what the suite finds with these options of pytest."""
    hosts, report = folder / "hosts", folder / "report.xml"
    write_hosts([reached_host("node", "OpenSshConnector", node.data())], hosts)
    command = suite.command(hosts, *suite.reporting(report), *options)
    done = subprocess.run(
        command, env=suite.environment(), cwd=folder, capture_output=True, text=True, check=False
    )
    assert report.exists(), done.stdout
    found = suite.results(report)
    assert "passed" in done.stdout or suite.failures(found), done.stdout
    return found
