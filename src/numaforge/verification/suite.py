"""Run the suite as a separate process, independent of the caller's folder and environment."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_LONGEST = 2000  # the characters of a reason: some promises name every place that differs
_FAILED = "Failed: "  # what pytest puts before the reason of pytest.fail
HOST, UNREACHABLE = "host", "unreachable"
"""The properties of a test in a report."""

# What imports make stays: no collection needs to look through it again, at the end neither.
_PYTEST = """
import gc, sys
gc.set_threshold(200_000)
import pytest
code = pytest.main()
gc.freeze()
sys.exit(code)
"""
# pytest starts with the suite's own plugin and imports every module of the suite; no host is contacted.
_TRIAL = """
import importlib, pkgutil, sys, pytest, testinfra.plugin, numaforge.verification as suite
for module in pkgutil.iter_modules(suite.__path__):
    importlib.import_module(f"{suite.__name__}.{module.name}")
sys.exit(pytest.main([*sys.argv[1:], "--hosts=local://", "--version"]))
"""


@dataclass(frozen=True)
class CaseResult:
    """One test: its name with host and setting, "passed", "failed" or "skipped", and why.

    `host` is the host that it is about, by testinfra's name, "" for none; `unreachable`: that host has not
    answered.
    """

    name: str
    outcome: str
    reason: str = ""
    host: str = ""
    unreachable: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def command(hosts: Path, *arguments: str) -> list[str]:
    """Return the command that compares hosts with their plans; `hosts` is a file of `reach.write_hosts`.

    The caller's folder has no effect but for relative paths: `-P` excludes its modules, `-c` its pytest
    settings, `--rootdir` its conftest.py.
    """
    return [
        *_pytest(FOLDER),
        *("-q", f"--reach={hosts}", *arguments, str(FOLDER)),
    ]


def image_command(root: Path, *arguments: str) -> list[str]:
    """Return the command that checks the root of an image against its rules, like `command` for nodes."""
    folder = FOLDER.parent / "image" / "bake"
    return [
        *_pytest(folder),
        *("-q", "--connection=chroot", f"--hosts={root}", *arguments, str(folder / "hygiene.py")),
    ]


def _pytest(folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-P", "-c", _PYTEST, "-c", str(folder / "pytest.ini"), f"--rootdir={folder}")


def reporting(report: Path) -> list[str]:
    """Return pytest's arguments for a report; for each failure in full it would go through all tests."""
    return ["--tb=line", f"--junitxml={report}"]


def why_unusable() -> str | None:
    """Return why the suite cannot run on this machine, in one line, else None. Takes about a second."""
    done = subprocess.run(
        [*(sys.executable, "-P", "-c", _TRIAL, "-c", str(FOLDER / "pytest.ini")), f"--rootdir={FOLDER}"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    output = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return output[-1] if output else f"python ended with {done.returncode}"


def environment() -> dict[str, str]:
    """Return our environment with testinfra as pytest's only plugin, and our packages in any folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    packages = os.pathsep.join(filter(None, [str(FOLDER.parents[1]), inherited.get("PYTHONPATH")]))
    return inherited | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "testinfra.plugin",
        "PYTHONPATH": packages,
    }


def results(report: Path) -> tuple[CaseResult, ...]:
    """Return the results of a run with the arguments of `reporting`."""
    cases = ET.parse(report).iter("testcase")  # noqa: S314 (written by our own child)
    return tuple(_result(case) for case in cases)


def failures(results: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    """Return the tests that failed."""
    return tuple(result for result in results if result.outcome == "failed")


def _result(case: ET.Element) -> CaseResult:
    name = case.get("name") or ""
    properties = {
        property_element.get("name"): property_element.get("value") or ""
        for property_element in case.iter("property")
    }
    about: dict[str, Any] = {"host": properties.get(HOST, ""), "unreachable": UNREACHABLE in properties}
    for kind, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        element = case.find(kind)
        if element is not None:
            return CaseResult(name, outcome, _reason(element.get("message") or kind), **about)
    return CaseResult(name, "passed", **about)


def _reason(message: str) -> str:
    """Return a promise's own words, and of any other failure the first line."""
    unprefixed = message.strip().removeprefix(_FAILED)
    text = (
        unprefixed
        if unprefixed != message.strip()
        else unprefixed.splitlines()[0].removeprefix("AssertionError: ")
    )
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
