"""What the kubelet's login names, root reads and runs: so only root may have written it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from numaforge.image.first_boot.kubelet_login import kubelet_login, require_roots
from numaforge.lib.errors import HostError
from tests.fixtures.tables import cases

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
MALLORY = 54321


def written(folder: Path, mode: int = 0o600, owner: int = 0) -> Path:
    file = folder / "kubelet.conf"
    file.write_text("users: [{name: a, user: {exec: {command: /home/m/root-me}}}]\n")
    file.chmod(mode)
    os.chown(file, owner, owner)
    return file


def made(path: Path, mode: int = 0o755, owner: int = 0, group: int = 0) -> Path:
    path.mkdir()
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def linked(path: Path, to: Path, owner: int = 0) -> Path:
    path.symlink_to(to)
    os.lchown(path, owner, owner)
    return path


@cases(
    "build",
    {
        "another user's file": lambda base: written(base, owner=MALLORY),
        "a file that every user may write": lambda base: written(base, mode=0o666),
        "another user's folder": lambda base: written(made(base / "a", owner=MALLORY)),
        "a group's folder": lambda base: written(made(base / "a", 0o775, group=MALLORY)),
        "a file in a sticky folder": lambda base: written(made(base / "a", 0o1777)),
        "a link of another user's": lambda base: linked(base / "link", written(base), MALLORY),
        "a link in a sticky folder": lambda base: linked(made(base / "tmp", 0o1777) / "link", written(base)),
        "root's link to another user's folder": lambda base: linked(
            base / "link", written(made(base / "a", owner=MALLORY))
        ),
    },
)
def test_login_writable_by_another_user_is_not_read(tmp_path: Path, build: Callable[[Path], Path]) -> None:
    file = build(tmp_path)
    with pytest.raises(HostError, match="is not read as root"):
        kubelet_login(file)


@cases(
    "build",
    {
        "root's file": written,
        "a folder for the group root": lambda base: written(made(base / "a", 0o775)),
        "root's link": lambda base: linked(base / "link", written(made(base / "a"))),
        "root's folder in a sticky one": lambda base: written(made(made(base / "tmp", 0o1777) / "a")),
    },
)
def test_file_only_root_can_write_is_read(tmp_path: Path, build: Callable[[Path], Path]) -> None:
    require_roots(build(tmp_path))
