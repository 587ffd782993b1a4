"""What a run lacks on the machine that it is started on."""

import sys
from pathlib import Path

import pytest

from numaforge.findings import Severity
from numaforge.preflight.runner import runner_checks, verification_check


def test_this_machine_can_verify():
    assert verification_check().severity is None


def test_a_suite_that_cannot_be_imported_is_an_error_with_pythons_words(tmp_path, monkeypatch):
    broken = tmp_path / "testinfra"
    broken.mkdir()
    (broken / "__init__.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = verification_check()
    assert check.severity is Severity.ERROR
    assert "No module named 'a_package_that_is_not_there'" in check.evidence


def test_a_path_without_ssh_and_pyinfra_is_named_with_what_helps(tmp_path, monkeypatch):
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


def test_a_program_that_pip_put_in_the_users_folder_is_numaforges(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(installed_below(tmp_path)))
    monkeypatch.setattr("sys.executable", str(python_without_programs(tmp_path)))
    program = program_in(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(program.parent))
    found = {check.name: check for check in runner_checks()}
    assert (found["program pyinfra"].severity, found["program pyinfra"].evidence) == (None, str(program))


@pytest.mark.parametrize(
    ("own", "named"), [pytest.param(True, True, id="there"), pytest.param(False, False, id="not there")]
)
def test_another_pythons_program_is_a_warning_that_names_numaforges_where_it_is(
    tmp_path, monkeypatch, own, named
):
    monkeypatch.syspath_prepend(str(installed_below(tmp_path)))
    monkeypatch.setattr("sys.executable", str(python_without_programs(tmp_path)))
    if own:
        program_in(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(program_in(tmp_path / "other").parent))
    found = {check.name: check for check in runner_checks()}["program pyinfra"]
    assert found.evidence == f"{tmp_path}/other/pyinfra belongs to another Python"
    assert found.severity is Severity.WARNING
    assert (f"{tmp_path}" in found.remedy) is named
