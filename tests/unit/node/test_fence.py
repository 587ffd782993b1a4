"""What a node says it was like when it was looked at; what becomes of that is in tests/ssh."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from numaforge import shell
from numaforge.errors import HostError
from numaforge.node.fence import Fingerprint, read_fingerprint

LINES = ["boot b1", "uptime 77", "last T1 applied", "content 1f /etc/a", "content absent /etc/b c", "else x"]


def test_a_look_is_read_among_other_lines() -> None:
    contents = {"/etc/a": "1f", "/etc/b c": "absent"}
    assert read_fingerprint(LINES, "/etc/d") == Fingerprint("b1", 77, "T1 applied", contents, "/etc/d")


def test_a_node_that_no_transaction_has_touched_has_no_predecessor() -> None:
    assert read_fingerprint(["boot b1", "uptime 77", "last "], None).predecessor == ""


@pytest.mark.parametrize("missing", ["boot", "uptime", "last"])
def test_a_look_that_is_cut_off_is_refused(missing: str) -> None:
    with pytest.raises(HostError, match="cut off"):
        read_fingerprint([line for line in LINES if not line.startswith(missing)], None)


@pytest.mark.parametrize("interpreter", ["dash", "busybox sh", "bash --posix"])
def test_the_contents_of_files_with_any_name_are_told(tmp_path: Path, interpreter: str) -> None:
    texts = {
        "a b": "1",
        "a b c": "2",
        "d/k.conf": "3",
        "d/*.conf": "4",
        "d/\\x2d.conf": "5",
        "back\\slash": "6",
    }
    (tmp_path / "d").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    asked = ["a b", "a b c", "d/k.conf", "back\\slash", "d", "not\\there", "not there"]
    library = shell.library("node/files", "node/fence")
    call = shell.call("contents", [f"{tmp_path}/{name}" for name in ("d", *asked)])
    done = subprocess.run(
        interpreter.split(), input=library + call, capture_output=True, text=True, check=True
    )
    expected = {
        f"{tmp_path}/{name}": hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()
    }
    expected |= {f"{tmp_path}/{name}": "absent" for name in ("d", "not\\there", "not there")}
    rows = [line.partition(" ") for line in done.stdout.splitlines()]
    assert len(rows) == len(expected)
    assert {path: checksum for checksum, _, path in rows} == expected
