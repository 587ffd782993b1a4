"""numaforge as one file: it runs from any folder without anything installed, and starts its own processes."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lab.paths import REPOSITORY


@pytest.fixture(scope="module")
def bundle(venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bundle") / "numaforge.pyz"
    build = [sys.executable, str(REPOSITORY / "packaging/bundle.py"), str(file), str(venv)]
    subprocess.run(build, check=True)
    (file.parent / "pyinfra").symlink_to(file)
    return file


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def run(program: Path, home: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(program), *arguments],
        cwd=folder,
        env={"HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8", "PYINFRA_PROGRESS": "off"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )


@pytest.mark.long
def test_bundle_runs_init_doctor_and_capture_standalone(bundle, home, tmp_path):
    begun = run(bundle, home, tmp_path, "init", "fleet", "--host", "@local")
    assert begun.returncode == 0, begun.stderr
    fleet = tmp_path / "fleet"
    looked = run(bundle, home, fleet, "doctor", "inventory.py")
    assert looked.returncode == 0, looked.stdout + looked.stderr
    assert "runs with pytest" in looked.stdout
    assert re.search(r"ok +program pyinfra ", looked.stdout)
    captured = run(bundle, home, fleet, "capture", "inventory.py", "--to", "out")
    assert captured.returncode == 0, captured.stderr
    planned = run(bundle.parent / "pyinfra", home, fleet, "--version")
    assert planned.stdout.startswith("pyinfra: ")


@pytest.mark.long
def test_bundle_is_unpacked_once_and_private_to_its_user(bundle, home, tmp_path):
    run(bundle, home, tmp_path, "--version")
    (place,) = (home / ".cache/numaforge").iterdir()
    before = place.stat().st_mtime_ns
    assert run(bundle, home, tmp_path, "--version").stdout.startswith("numaforge ")
    assert place.stat().st_mtime_ns == before
    assert (home / ".cache/numaforge").stat().st_mode & 0o77 == 0


@pytest.mark.long
def test_wrong_python_version_is_refused_and_required_named(bundle, home, tmp_path):
    other = tmp_path / "numaforge.pyz"
    with zipfile.ZipFile(bundle) as archive, zipfile.ZipFile(other, "w") as changed:
        changed.writestr("__main__.py", archive.read("__main__.py"))
        changed.writestr("built.json", archive.read("built.json").replace(b"cpython-3", b"cpython-9"))
    done = run(other, home, tmp_path, "--version")
    assert done.returncode == 1
    assert "built for cpython-9" in done.stderr
    assert "Traceback" not in done.stderr
