"""What a node says it was like when it was looked at; what becomes of that is in tests/ssh."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from numaforge.change.look import NodeQuery, read_found
from numaforge.lib import shell
from numaforge.lib.errors import HostError
from numaforge.node.fence import Fingerprint, read_fingerprint

SAID = {"boot": "b1", "uptime": "77", "last": "T1 applied", "else": "x"}
CONTENTS = {"/etc/a": "1f", "/etc/b c": "absent"}


def test_fingerprint_is_read_among_other_lines():
    read = read_fingerprint(SAID, contents=CONTENTS, drop_in_folder="/etc/d")
    assert read == Fingerprint("b1", 77, "T1 applied", CONTENTS, "/etc/d")


@pytest.mark.parametrize("missing", ["boot", "uptime", "last"])
def test_incomplete_look_is_refused(missing):
    rest = {name: value for name, value in SAID.items() if name != missing}
    with pytest.raises(HostError, match="does not report its uptime"):
        read_fingerprint(rest, contents=CONTENTS, drop_in_folder=None)


class Host:
    """A shell, busybox's with the other programs of busybox."""

    def __init__(self, interpreter: str, folder: Path) -> None:
        self.command = interpreter.split()
        self.programs = folder / "programs"
        self.programs.mkdir()
        if self.command[0] == "busybox":
            for name in ("base64", "cat", "find", "grep", "readlink", "sed", "sha256sum", "sort", "stat"):
                (self.programs / name).symlink_to(str(shutil.which("busybox")))

    def run(self, script: str) -> list[str]:
        path = f"{self.programs}:{os.environ['PATH']}"
        done = subprocess.run(
            self.command, input=script, env={"PATH": path}, capture_output=True, text=True, check=True
        )
        return done.stdout.split("\n")[:-1]

    def looked(self, folder: str, paths: list[str], *calls: tuple[str, ...]) -> dict[str, str]:
        asked = NodeQuery((), tuple(paths), (), calls, folder, "")
        found = read_found(asked, self.run(asked.script))
        return dict(found.fingerprint.contents)

    def checked(self, folder: str, paths: list[str]) -> dict[str, str]:
        call = shell.call("contents", [folder, *paths])
        rows = [line.partition(" ") for line in self.run(shell.library("node/files", "node/fence") + call)]
        assert len({path for _, _, path in rows}) == len(rows)
        return {path: checksum for checksum, _, path in rows}


@pytest.mark.parametrize("interpreter", ["dash", "busybox sh", "bash --posix"])
def test_capture_and_check_agree_on_files_with_any_name(tmp_path, interpreter):
    texts = {
        "a b": "1",
        "a b c": "2",
        "d/k.conf": "3",
        "d/*.conf": "4",
        "d/\\x2d.conf": "5",
        "back\\slash": "6",
        "d/\\nfiles\\n.conf": "7",
    }
    (tmp_path / "d").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    asked = ["a b", "a b c", "d/k.conf", "back\\slash", "not\\there", "not there"]
    expected = {
        f"{tmp_path}/{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()
    }
    expected |= {f"{tmp_path}/{name}": "absent" for name in ("not\\there", "not there")}
    folder, paths = f"{tmp_path}/d", [f"{tmp_path}/{name}" for name in asked]
    run = Host(interpreter, tmp_path)
    assert run.looked(folder, paths) == expected
    assert run.checked(folder, paths) == expected
    assert run.checked(folder, [*paths, f"{tmp_path}/d"]) == {**expected, f"{tmp_path}/d": "absent"}


def test_edit_while_text_is_read_counts_as_after_the_look(tmp_path):
    file, run = tmp_path / "a", Host("sh", tmp_path)
    file.write_text("old")
    (run.programs / "base64").write_text(f"#!/bin/sh\nprintf new > {file}\nexec {shutil.which('base64')}\n")
    (run.programs / "base64").chmod(0o755)
    looked = run.looked("", [str(file)])
    assert file.read_text() == "new"
    assert looked != run.checked("", [str(file)])


def test_edit_while_a_part_looks_counts_as_after_the_look(tmp_path):
    file, run = tmp_path / "a", Host("sh", tmp_path)
    file.write_text("old")
    looked = run.looked("", [str(file)], ("files", "eval", f"printf new > {file}"))
    assert file.read_text() == "new"
    assert looked != run.checked("", [str(file)])
