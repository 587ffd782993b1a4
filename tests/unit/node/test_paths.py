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
ODD = "a b* [c]/d\\n drwxr-xr-x 0 0"
NOBODY = 0xFFFFFFFF
"""No id: an entry of an ACL for the owner, the group, the mask or all others."""
BUSYBOX = "base64 cat chmod chown cp ls mkdir mv readlink rm sha256sum stat sync"


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
    for name in BUSYBOX.split() if words[0] == "busybox" else ():
        (programs / name).symlink_to(str(shutil.which("busybox")))
    return Root(tuple(words), str(programs), folder)


def folder(path: Path, owner: int = 0) -> Path:
    path.mkdir()
    os.chown(path, owner, 0)
    return path


def built(base: Path, commands: str) -> None:
    """Make folders and links with a shell's commands, which run in the base."""
    script = f"set -e; umask 022; cd '{base}'; {commands.replace('MALLORY', str(MALLORY))}"
    subprocess.run(["sh", "-c", script], check=True)


@cases(
    "commands, path, reason",
    {
        "another's folder above": (
            "mkdir -p home/kd; chown MALLORY home",
            "home/kd/file",
            "home belongs to UNKNOWN (54321)",
        ),
        "a group other than root may write": (
            f"mkdir shared; chgrp {GROUP} shared; chmod 775 shared",
            "shared/file",
            "shared",
        ),
        "every user may write": ("mkdir open; chmod 777 open", "open/file", EVERYBODY),
        "a file in a sticky folder": ("mkdir tmp; chmod 1777 tmp; touch tmp/file", "tmp/file", EVERYBODY),
        "a new folder in a sticky one": ("mkdir tmp; chmod 1777 tmp", "tmp/kubelet/file", EVERYBODY),
        "another's folder in a sticky one": (
            "mkdir -p tmp/kubelet; chmod 1777 tmp; chown MALLORY tmp/kubelet",
            "tmp/kubelet/file",
            EVERYBODY,
        ),
        "any link in a sticky folder": (
            'mkdir real tmp; chmod 1777 tmp; ln -s "$PWD/real" tmp/kubelet',
            "tmp/kubelet/file",
            EVERYBODY,
        ),
        "a link of another user's": (
            'mkdir real; ln -s "$PWD/real" kubelet; chown -h MALLORY kubelet',
            "kubelet/file",
            "the link",
        ),
        "root's link to another's folder": (
            'mkdir home; chown MALLORY home; ln -s "$PWD/home" kubelet',
            "kubelet/file",
            "home belongs to",
        ),
        "links in a circle": ("ln -s b a; ln -s a b", "b/file", "cannot be followed"),
        "a file for a folder": ("touch file", "file/file", "is not a folder"),
    },
)
def test_root_writes_nothing_that_another_user_could_redirect(root, commands, path, reason):
    built(root.folder, commands)
    path = root.folder / path
    before = {file: os.lstat(file).st_ctime_ns for file in root.folder.rglob("*")}
    said = root.resolved(path)
    assert said.startswith(f"{path} is left alone, as another user could redirect it: ")
    assert reason in said
    for call in (f"printf '' | stage 0 '{path}' 0644 root root", f"remove '{path}'", f"keep /none '{path}'"):
        assert root.run(call).returncode == 1
    assert {file: os.lstat(file).st_ctime_ns for file in root.folder.rglob("*")} == before


@cases(
    "commands, path, target",
    {
        "a folder of root's": ("mkdir kd", "kd/file", "kd/file"),
        "folders that root will make": ("", "kd/below/file", "kd/below/file"),
        "below a link of root's": (
            "mkdir -p data/kubelet; ln -s ./data//../data/kubelet/ lib",
            "lib/file",
            "data/kubelet/file",
        ),
        "a file that is a link of root's": (
            'mkdir kd real; ln -s "$PWD/real/file" kd/file',
            "kd/file",
            "real/file",
        ),
        "a folder for the group root": ("mkdir kd; chmod 2775 kd", "kd/file", "kd/file"),
        "root's folder in a sticky one": (
            "mkdir -p tmp/kubelet; chmod 1777 tmp",
            "tmp/kubelet/file",
            "tmp/kubelet/file",
        ),
        "odd names": (f"mkdir -p '{ODD}'", f"{ODD}/file * x", f"{ODD}/file * x"),
    },
)
def test_root_writes_below_root_owned_folders(root, commands, path, target):
    built(root.folder, commands)
    path, target = root.folder / path, root.folder / target
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
