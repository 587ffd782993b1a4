"""Where root writes: never through what another user could redirect, with real users and real folders."""

import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from numaforge.lib import shell
from tests.fixtures.tables import cases

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users")
EVERYBODY = "every user may write to"
MALLORY = 54321
GROUP = 54322
NOBODY = 0xFFFFFFFF
"""No id: an entry of an ACL for the owner, the group, the mask or all others."""
BUSYBOX = (
    "base64",
    "cat",
    "chmod",
    "chown",
    "cp",
    "ls",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "sha256sum",
    "stat",
    "sync",
)


@dataclass(frozen=True)
class Root:
    """Root's shell, busybox's with the other programs of busybox, and a folder of root's."""

    command: tuple[str, ...]
    programs: str
    folder: Path

    def run(self, call: str) -> subprocess.CompletedProcess[str]:
        variables = {"FOLDER": str(self.folder.parent)}
        script = shell.assignments(variables) + shell.library("node/paths", "node/files") + call
        path = f"{self.programs}:{os.environ['PATH']}"
        return subprocess.run(
            self.command, input=script, env={"PATH": path}, capture_output=True, text=True, check=False
        )

    def resolved(self, path: Path | str) -> str:
        """Return what a path means for root, or why root writes nothing there."""
        done = self.run(f"resolve '{path}' && printf '%s' \"$target\"")
        return done.stdout if done.returncode == 0 else done.stderr.strip()


@pytest.fixture(params=["dash", "bash --posix", "busybox sh"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    programs, folder = tmp_path / "programs", tmp_path / "root"
    programs.mkdir()
    folder.mkdir()
    words = request.param.split()
    for name in BUSYBOX if words[0] == "busybox" else ():
        (programs / name).symlink_to(str(shutil.which("busybox")))
    return Root(tuple(words), str(programs), folder)


def folder(path: Path, mode: int = 0o755, owner: int = 0, group: int = 0) -> Path:
    path.mkdir()
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def link(path: Path, to: Path | str, owner: int = 0) -> Path:
    path.symlink_to(to)
    os.lchown(path, owner, owner)
    return path


def below_anothers_folder(base: Path) -> Path:
    return folder(folder(base / "home", owner=MALLORY) / "kd") / "file"


def in_a_folder_for_a_group(base: Path) -> Path:
    return folder(base / "shared", 0o775, 0, GROUP) / "file"


def in_a_folder_for_everybody(base: Path) -> Path:
    return folder(base / "open", 0o777) / "file"


def directly_in_a_sticky_folder(base: Path) -> Path:
    (folder(base / "tmp", 0o1777) / "file").touch()
    return base / "tmp" / "file"


def not_yet_in_a_sticky_folder(base: Path) -> Path:
    return folder(base / "tmp", 0o1777) / "kubelet" / "file"


def below_anothers_folder_in_a_sticky_one(base: Path) -> Path:
    return folder(folder(base / "tmp", 0o1777) / "kubelet", owner=MALLORY) / "file"


def through_roots_link_in_a_sticky_folder(base: Path) -> Path:
    folder(base / "real")
    return link(folder(base / "tmp", 0o1777) / "kubelet", base / "real") / "file"


def through_anothers_link(base: Path) -> Path:
    folder(base / "real")
    return link(base / "kubelet", base / "real", MALLORY) / "file"


def through_roots_link_to_anothers_folder(base: Path) -> Path:
    return link(base / "kubelet", folder(base / "home", owner=MALLORY)) / "file"


def through_a_circle(base: Path) -> Path:
    link(base / "a", "b")
    return link(base / "b", "a") / "file"


def in_no_folder(base: Path) -> Path:
    (base / "file").touch()
    return base / "file" / "file"


@cases(
    "build, reason",
    {
        "another's folder above": (below_anothers_folder, "home belongs to UNKNOWN (54321)"),
        "a group other than root may write": (in_a_folder_for_a_group, "shared"),
        "every user may write": (in_a_folder_for_everybody, EVERYBODY),
        "a file in a sticky folder": (directly_in_a_sticky_folder, EVERYBODY),
        "a new folder in a sticky one": (not_yet_in_a_sticky_folder, EVERYBODY),
        "another's folder in a sticky one": (below_anothers_folder_in_a_sticky_one, EVERYBODY),
        "any link in a sticky folder": (through_roots_link_in_a_sticky_folder, EVERYBODY),
        "a link of another user's": (through_anothers_link, "the link"),
        "root's link to another's folder": (through_roots_link_to_anothers_folder, "home belongs to"),
        "links in a circle": (through_a_circle, "cannot be followed"),
        "a file for a folder": (in_no_folder, "is not a folder"),
    },
)
def test_root_writes_nothing_that_another_user_could_redirect(root, build, reason):
    path = build(root.folder)
    before = {file: os.lstat(file).st_ctime_ns for file in root.folder.rglob("*")}
    said = root.resolved(path)
    assert said.startswith(f"{path} is left alone, as another user could redirect it: ")
    assert reason in said
    for call in (f"printf '' | stage 0 '{path}' 0644 root root", f"remove '{path}'", f"keep /none '{path}'"):
        assert root.run(call).returncode == 1
    assert {file: os.lstat(file).st_ctime_ns for file in root.folder.rglob("*")} == before


def plain(base: Path) -> tuple[Path, Path]:
    return (folder(base / "kd") / "file",) * 2


def absent(base: Path) -> tuple[Path, Path]:
    return (base / "kd" / "below" / "file",) * 2


def below_roots_link(base: Path) -> tuple[Path, Path]:
    folder(folder(base / "data") / "kubelet")
    link(base / "lib", "./data//../data/kubelet/")
    return base / "lib" / "file", base / "data/kubelet/file"


def behind_roots_link(base: Path) -> tuple[Path, Path]:
    real = folder(base / "real") / "file"
    return link(folder(base / "kd") / "file", real), real


def for_the_group_root(base: Path) -> tuple[Path, Path]:
    return (folder(base / "kd", 0o2775) / "file",) * 2


def in_roots_folder_in_a_sticky_one(base: Path) -> tuple[Path, Path]:
    return (folder(folder(base / "tmp", 0o1777) / "kubelet") / "file",) * 2


def odd_names(base: Path) -> tuple[Path, Path]:
    return (folder(folder(base / "a b* [c]") / "d\\n drwxr-xr-x 0 0") / "file * x",) * 2


@cases(
    "build",
    {
        "a folder of root's": plain,
        "folders that root will make": absent,
        "below a link of root's": below_roots_link,
        "a file that is a link of root's": behind_roots_link,
        "a folder for the group root": for_the_group_root,
        "root's folder in a sticky one": in_roots_folder_in_a_sticky_one,
        "odd names": odd_names,
    },
)
def test_root_writes_below_root_owned_folders(root, build):
    path, target = build(root.folder)
    assert root.resolved(path) == str(target)
    done = root.run(f"printf 'dGV4dA==' | stage 0 '{path}' 0640 root root && place 0 '{path}'")
    assert (done.returncode, done.stderr) == (0, "")
    assert target.read_text() == "text"
    assert root.run(f"remove '{path}'").returncode == 0
    assert not target.exists()


@pytest.mark.parametrize("path", ["relative/file", "", "/two\nlines"])
def test_relative_empty_or_multiline_path_is_refused(root, path):
    assert "another user could redirect it" in root.resolved(path)


def test_folder_name_that_imitates_stat_output_is_refused(root):
    """Its name continues as the line that `stat` prints for a folder of root's."""
    home = folder(root.folder / "home", owner=MALLORY)
    folder(home / " drwxr-xr-x 0 0", owner=MALLORY)
    said = root.resolved(f"{home}// drwxr-xr-x 0 0/file")
    assert f"{home} belongs to" in said


def test_acl_that_lets_another_user_write_is_found(root):
    if root.command[0] == "busybox":
        pytest.skip("busybox's ls shows no ACL")
    kd = folder(root.folder / "kd")
    entries = [(1, 7, NOBODY), (2, 7, MALLORY), (4, 5, NOBODY), (16, 7, NOBODY), (32, 5, NOBODY)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(kd, "system.posix_acl_access", acl)
    except OSError:
        pytest.skip("the file system has no ACLs")
    assert f"the ACL of {kd} may let others write" in root.resolved(kd / "file")


def test_folder_replaced_between_two_steps_is_refused(root):
    """The file is staged while its folder is root's; then it becomes a link of another user's."""
    kd, secret = folder(root.folder / "kd"), root.folder / "shadow"
    secret.write_text("secret")
    steps = f"""
printf dGV4dA== | stage 0 '{kd}/shadow' 0644 root root || exit 9
mv '{kd}' '{kd}.away' && ln -s '{root.folder}' '{kd}' && chown -h {MALLORY} '{kd}'
forget_rights
place 0 '{kd}/shadow' || put_back /none '{kd}/shadow' || remove '{kd}/shadow'
"""
    done = root.run(steps)
    assert done.returncode == 1
    assert done.stderr.count(f"the link {kd} belongs to UNKNOWN ({MALLORY})") == 3
    assert secret.read_text() == "secret"


def test_rights_of_many_paths_are_read_by_one_program(root):
    paths = " ".join(str(folder(root.folder / f"kd{number}") / "file") for number in range(30))
    counted = f"stat() {{ echo >> '{root.folder}/count'; command stat \"$@\"; }}\n"
    done = root.run(f'{counted}read_rights {paths}\nfor path in {paths}; do resolve "$path" || exit 1; done')
    assert done.returncode == 0
    assert (root.folder / "count").read_text() == "\n"
