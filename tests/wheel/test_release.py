"""`make release`: all that is published, made of a commit, twice the same, and installed as it is."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures.tables import cases

VERSION = "7.8.9"
IDENTITY = ["-c", "user.name=Release", "-c", "user.email=release@example.com"]


def git(checkout: Path, *arguments: str) -> str:
    command = ["git", *IDENTITY, *arguments]
    done = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def checkout(folder: Path) -> Path:
    """Return a checkout of what is here with its changes under a version, committed at a certain time."""
    files = git(REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, files):
        source, target = REPOSITORY / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink() or source.exists():
            shutil.copy2(source, target, follow_symlinks=False)
    code, changelog = folder / "src/numaforge/__init__.py", folder / "CHANGELOG.md"
    code.write_text(re.sub(r'__version__ = ".+"', f'__version__ = "{VERSION}"', code.read_text()))
    changelog.write_text(
        re.sub(r"^## .+$", f"## {VERSION}", changelog.read_text(), count=1, flags=re.MULTILINE)
    )
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "--date=2026-01-02T03:04:05Z", "-m", "Release")
    return folder


def release(source: Path, target: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "packaging/release.py", str(target)],
        cwd=source,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("source"))


@pytest.mark.long
def test_release_builds_are_reproducible_and_installable(source, tmp_path):
    one, other = tmp_path / "one", tmp_path / "elsewhere" / "other"
    assert release(source, one).returncode == 0
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(source), str(clone))
    done = release(clone, other, TZ="Asia/Tokyo", PYTHONHASHSEED="7", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    made = {file.name: file.read_bytes() for file in one.iterdir()}
    assert made == {file.name: file.read_bytes() for file in other.iterdir()}
    assert {*made} == {
        *(
            f"numaforge-{VERSION}-py3-none-any.whl",
            f"numaforge-{VERSION}.tar.gz",
            f"numaforge-{VERSION}.cdx.json",
        ),
        *("numaforge.pyz", "SHA256SUMS", "TAG"),
    }
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=one, check=True, timeout=60
    )
    assert made["SHA256SUMS"].decode() in made["TAG"].decode()
    assert f"git tag --sign --cleanup=verbatim --file {other}/TAG v{VERSION}" in done.stdout

    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", str(venv), "--quiet", "install", "--no-deps"]
    subprocess.run([*pip, *map(str, one.glob("*.whl"))], check=True, timeout=120)
    home = {"HOME": str(tmp_path), "PATH": os.defpath}
    for program in (one / "numaforge.pyz", other / "numaforge.pyz"):
        command = [sys.executable, str(program), "--version"]
        said = subprocess.run(command, env=home, capture_output=True, text=True, check=True, timeout=120)
        assert said.stdout == f"numaforge {VERSION}\n"
    listed = json.loads(made[f"numaforge-{VERSION}.cdx.json"])
    assert listed["metadata"]["component"]["version"] == VERSION
    names = {one["name"] for one in listed["components"]}
    assert {"pyinfra", "paramiko", "nvidia-ml-py"} <= names
    assert not {"pip", "setuptools", "mypy"} & names


def unreleased(source: Path) -> None:
    changelog = source / "CHANGELOG.md"
    changelog.write_text(
        changelog.read_text().replace(f"## {VERSION}", f"## Unreleased\n\n- One.\n\n## {VERSION}")
    )
    git(source, "commit", "--quiet", "--no-verify", "--all", "-m", "Go on")


def unknown(source: Path) -> None:
    changelog = source / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## {VERSION}", "## 7.8.90"))
    git(source, "commit", "--quiet", "--no-verify", "--all", "-m", "Go on")


def published(source: Path) -> None:
    git(source, "tag", f"v{VERSION}")
    git(source, "commit", "--quiet", "--no-verify", "--allow-empty", "-m", "Go on")


def not_committed(source: Path) -> None:
    (source / "roles/new.py").write_text("")


@cases(
    "unready, said",
    {
        "changes-of-no-version": (unreleased, "has changes under Unreleased, and numaforge is 7.8.9"),
        "a-version-without-notes": (unknown, "it needs a section `## 7.8.9`"),
        "a-version-twice": (published, "v7.8.9 is the tag of another commit"),
        "what-is-not-committed": (not_committed, "?? roles/new.py"),
    },
)
def test_unready_release_builds_nothing(source, tmp_path, unready, said):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(source), str(clone))
    unready(clone)
    done = release(clone, tmp_path / "made")
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "made").exists()
