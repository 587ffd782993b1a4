"""What a run lacks on the machine that it is started on."""

import sys
from pathlib import Path

import pytest

from numaforge.findings import Severity
from numaforge.preflight.runner import runner_checks, verification_check


def test_verification_works_on_this_machine():
    assert verification_check().severity is None


def test_suite_import_failure_is_reported_with_the_python_error(tmp_path, monkeypatch):
    broken = tmp_path / "testinfra"
    broken.mkdir()
    (broken / "__init__.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = verification_check()
    assert check.severity is Severity.ERROR
    assert "No module named 'a_package_that_is_not_there'" in check.evidence


def test_missing_ssh_and_pyinfra_are_reported_with_remedies(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {check.name: check for check in runner_checks()}
    assert {found[f"program {name}"].severity for name in ("ssh", "pyinfra")} == {Severity.WARNING}
    assert "openssh-client" in found["program ssh"].remedy
    assert "--include-deps" in found["program pyinfra"].remedy


def installed_below(folder: Path) -> Path:
    """Lay out what `pip install --user` leaves of pyinfra, and return where its modules are."""
    modules = folder / "lib/python3/site-packages"
    (modules / "pyinfra-3.10.0.dist-info").mkdir(parents=True)
    (modules / "pyinfra-3.10.0.dist-info/METADATA").write_text("Name: pyinfra\nVersion: 3.10.0\n")
    (modules / "pyinfra-3.10.0.dist-info/RECORD").write_text("../../../bin/pyinfra,,\n")
    return modules


def python_without_programs(folder: Path) -> Path:
    python = folder / "python/bin/python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return python


def program_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    program = folder / "pyinfra"
    program.write_text("#!/usr/bin/python3\n")
    program.chmod(0o755)
    return program


def test_pyinfra_installed_in_the_user_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(installed_below(tmp_path)))
    monkeypatch.setattr("sys.executable", str(python_without_programs(tmp_path)))
    program = program_in(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(program.parent))
    found = {check.name: check for check in runner_checks()}
    assert (found["program pyinfra"].severity, found["program pyinfra"].evidence) == (None, str(program))


@pytest.mark.parametrize(
    ("own", "named"), [pytest.param(True, True, id="there"), pytest.param(False, False, id="not there")]
)
def test_pyinfra_of_another_python_is_a_warning_naming_ours_if_present(tmp_path, monkeypatch, own, named):
    monkeypatch.syspath_prepend(str(installed_below(tmp_path)))
    monkeypatch.setattr("sys.executable", str(python_without_programs(tmp_path)))
    if own:
        program_in(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(program_in(tmp_path / "other").parent))
    found = {check.name: check for check in runner_checks()}["program pyinfra"]
    assert found.evidence == f"{tmp_path}/other/pyinfra belongs to another Python"
    assert found.severity is Severity.WARNING
    assert (f"{tmp_path}" in found.remedy) is named
