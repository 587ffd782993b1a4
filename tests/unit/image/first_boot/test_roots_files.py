"""What the kubelet's login names, root reads and runs: so only root may have written it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from numaforge.image.first_boot.kubelet_login import kubelet_login
from numaforge.image.first_boot.roots_files import require_roots
from numaforge.lib.errors import HostError

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


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda base: written(base, owner=MALLORY), id="another user's file"),
        pytest.param(lambda base: written(base, mode=0o666), id="a file that every user may write"),
        pytest.param(lambda base: written(made(base / "a", owner=MALLORY)), id="another user's folder"),
        pytest.param(lambda base: written(made(base / "a", 0o775, group=MALLORY)), id="a group's folder"),
        pytest.param(lambda base: written(made(base / "a", 0o1777)), id="a file in a sticky folder"),
        pytest.param(
            lambda base: linked(base / "link", written(base), MALLORY), id="a link of another user's"
        ),
        pytest.param(
            lambda base: linked(made(base / "tmp", 0o1777) / "link", written(base)),
            id="a link in a sticky folder",
        ),
        pytest.param(
            lambda base: linked(base / "link", written(made(base / "a", owner=MALLORY))),
            id="root's link to another user's folder",
        ),
    ],
)
def test_login_writable_by_another_user_is_not_read(tmp_path: Path, build: Callable[[Path], Path]) -> None:
    file = build(tmp_path)
    with pytest.raises(HostError, match="is not read as root"):
        kubelet_login(file)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(written, id="root's file"),
        pytest.param(lambda base: written(made(base / "a", 0o775)), id="a folder for the group root"),
        pytest.param(lambda base: linked(base / "link", written(made(base / "a"))), id="root's link"),
        pytest.param(
            lambda base: written(made(made(base / "tmp", 0o1777) / "a")), id="root's folder in a sticky one"
        ),
    ],
)
def test_file_only_root_can_write_is_read(tmp_path: Path, build: Callable[[Path], Path]) -> None:
    require_roots(build(tmp_path))
