"""What is built: the package and nothing beside it, the same from a checkout as from an sdist."""

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures.wheel import build


def package_files() -> set[str]:
    """Return the package's files as they are imported: links are followed."""
    package = REPOSITORY / "src" / "numaforge"
    files = (
        Path(folder, name)
        for folder, _, names in os.walk(package, followlinks=True)
        for name in names
        if "__pycache__" not in folder
    )
    return {f"numaforge/{path.relative_to(package)}" for path in files}


def contents(wheel: Path) -> set[str]:
    """Return the files of a wheel, without those that describe it and those for share/."""
    names = {*zipfile.ZipFile(wheel).namelist()}
    return {name for name in names if ".dist-info/" not in name and ".data/" not in name}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", REPOSITORY, tmp_path_factory.mktemp("built") / "sdist")


def test_wheel_contains_package_and_symlink_targets(tmp_path: Path) -> None:
    found = contents(build("wheel", REPOSITORY, tmp_path / "wheel"))
    assert found == package_files()
    assert {
        "numaforge/roles/kubelet/__init__.py",
        "numaforge/deploys/site.py",
        "numaforge/templates/init/README.md.j2",
        "numaforge/profiles/training.yaml",
        "numaforge/machines/dgx-h100.json",
        "numaforge/machine/snapshot/capture.sh",
        "numaforge/verification/pytest.ini",
    } <= found


def test_wheel_built_from_sdist_is_identical(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    assert contents(build("wheel", unpacked, tmp_path / "wheel")) == package_files()


def test_sdist_contains_every_file_a_checkout_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "Makefile",
        "requirements.lock",
        "config.py",
        "roles/__init__.py",
        "tests/wheel/test_contents.py",
    } <= names
