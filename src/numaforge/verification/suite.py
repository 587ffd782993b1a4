"""Run the suite as a process of its own, which nothing in the caller's folder or environment changes."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from numaforge.verification.login import Login

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Result:
    """One test: its name with host and setting, "passed", "failed" or "skipped", and why in one line."""

    name: str
    outcome: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def command(logins: Iterable[Login], ssh_config: Path, *arguments: str) -> list[str]:
    """Return the command that holds these hosts to their plans; `ssh_config` is a file.

    The caller's folder stays the working folder, for relative paths, but takes no part: `-P` keeps out its
    modules, `-c` its settings of pytest, `--rootdir` its conftest.py.
    """
    hosts = ",".join(login.host for login in logins)
    return [
        *(sys.executable, "-P", "-m", "pytest", "-c", str(FOLDER / "pytest.ini"), f"--rootdir={FOLDER}"),
        *("-q", f"--hosts={hosts}", f"--ssh-config={ssh_config}", *arguments, str(FOLDER)),
    ]


def environment() -> dict[str, str]:
    """Return this process's environment without what changes pytest, and with no plugin but testinfra."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "testinfra.plugin"}


def results(report: Path) -> tuple[Result, ...]:
    """Return what a run with `--junitxml=REPORT` found."""
    cases = ET.parse(report).iter("testcase")  # noqa: S314 (written by our own child)
    return tuple(_result(case) for case in cases)


def failures(found: Sequence[Result]) -> tuple[Result, ...]:
    """Return the tests that failed."""
    return tuple(result for result in found if result.outcome == "failed")


def _result(case: ET.Element) -> Result:
    name = case.get("name") or ""
    for kind, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None:
            lines = (found.get("message") or "").strip().splitlines()
            return Result(name, outcome, lines[0] if lines else kind)
    return Result(name, "passed")
