"""A sandbox held to its plan by the verification suite."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from numaforge.verification import suite
from numaforge.verification.login import login, ssh_config
from numaforge.verification.suite import CaseResult
from tests.ssh.sandbox import Sandbox


def verified(node: Sandbox, folder: Path, *options: str, connection: str = "ssh") -> tuple[CaseResult, ...]:
    """Return what the suite finds with these options of pytest over a connection of testinfra."""
    how = login("node", "SSHConnector", node.data())
    config, report = folder / "ssh_config", folder / "report.xml"
    config.write_text(ssh_config([how]))
    named = replace(how, host=f"{connection}://node")
    command = suite.command([named], config, *suite.reporting(report), *options)
    done = subprocess.run(
        command, env=suite.environment(), cwd=folder, capture_output=True, text=True, check=False
    )
    assert report.exists(), done.stdout
    found = suite.results(report)
    assert "passed" in done.stdout or suite.failures(found), done.stdout
    return found
