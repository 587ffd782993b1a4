"""What a run lacks on the machine that it is started on."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaforge.findings import Severity
from numaforge.preflight.runner import runner_checks, verification_check


def test_this_machine_can_verify():
    assert verification_check().severity is None


def test_a_suite_that_cannot_be_imported_is_an_error_with_pythons_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    broken = tmp_path / "testinfra"
    broken.mkdir()
    (broken / "__init__.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = verification_check()
    assert check.severity is Severity.ERROR
    assert "No module named 'a_package_that_is_not_there'" in check.found


def test_a_path_without_ssh_and_pyinfra_is_named_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {check.name: check for check in runner_checks()}
    assert (found["program ssh"].severity, found["program pyinfra"].severity) == (
        Severity.ERROR,
        Severity.WARNING,
    )
    assert "openssh-client" in found["program ssh"].remedy
    assert "--include-deps" in found["program pyinfra"].remedy
