"""Which files change, and how a person sees it; the scripts themselves run in tests/ssh."""

import base64
import os
import subprocess

import pytest

from numaforge.lib.errors import HostError
from numaforge.lib.file_content import FileContent
from numaforge.lib.framing import Answer
from numaforge.node.bundle import FileChange, FileState, changes, diff, parse_states, read_script

WANTED = FileContent("/etc/a", "one\n")
SAME = FileState("one\n", "0644", "root", "root")


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        pytest.param(SAME, False, id="same"),
        pytest.param(None, True, id="absent"),
        pytest.param(FileState("two\n", "0644", "root", "root"), True, id="other-text"),
        pytest.param(FileState("one\n", "0600", "root", "root"), True, id="other-mode"),
        pytest.param(FileState("one\n", "0644", "nobody", "root"), True, id="other-owner"),
        pytest.param(FileState("one\n", "0644", "root", "adm"), True, id="other-group"),
    ],
)
def test_file_changes_when_text_mode_or_owner_differs(now, changed):
    assert bool(changes([WANTED], [], {"/etc/a": now} if now else {})) is changed


def test_mode_without_leading_zero_is_the_same_mode():
    assert changes([FileContent("/etc/a", "one\n", mode="644")], [], {"/etc/a": SAME}) == ()


def test_only_existing_files_are_removed():
    assert changes([], ["/etc/a", "/etc/b"], {"/etc/a": SAME}) == (FileChange("/etc/a", SAME, None),)


def test_diff_shows_changed_lines():
    change = FileChange(
        "/etc/a", FileState("one\ntwo\n", "0644", "root", "root"), FileContent("/etc/a", "one\n2\n")
    )
    assert diff(change) == [
        "--- /etc/a (now)",
        "+++ /etc/a (planned)",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
    ]


def test_diff_shows_a_changed_mode():
    change = FileChange("/etc/a", SAME, FileContent("/etc/a", "one\n", mode="0600"))
    assert diff(change) == ["/etc/a: mode 0644 root:root -> mode 0600 root:root"]


def test_diff_of_binary_bytes_is_printable():
    change = FileChange("/etc/a", FileState("\udcff\n", "0644", "root", "root"), None)
    assert "-\\udcff" in diff(change)


DIGEST = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"


def sent(*text: str) -> Answer:
    return Answer({"stat": ("644 root root /etc/a",), "sum": (f"{DIGEST}  /etc/a",), "text": text})


def test_read_scripts_answer_is_parsed():
    text = base64.encodebytes(b"one\n").decode().splitlines()
    assert parse_states(sent("file /etc/a", *text, ".")) == {"/etc/a": SAME}


def test_absent_file_has_no_text():
    assert parse_states(sent("absent /etc/b", "file /etc/a", "b25lCg==", ".")) == {"/etc/a": SAME}


def test_known_text_is_not_sent():
    assert parse_states(sent(), ["one\n", "two\n"]) == {"/etc/a": SAME}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer({}), id="nothing"),
        pytest.param(sent("file /etc/b", "b25lCg==", "."), id="without-the-text-of-a-file"),
        pytest.param(sent("other /etc/a"), id="a-folder"),
    ],
)
def test_malformed_answer_is_refused(answer):
    with pytest.raises(HostError):
        parse_states(answer)


@pytest.mark.parametrize("program", ["sha256sum", "base64"])
@pytest.mark.parametrize("event", ["touch", "rm -f"], ids=["comes", "goes"])
def test_file_that_appears_or_vanishes_during_the_read_is_absent(tmp_path, program, event):
    stays, moves, programs = tmp_path / "stays", tmp_path / "moves", tmp_path / "programs"
    stays.write_text("one\n")
    if event != "touch":
        moves.write_text("two\n")
    programs.mkdir()
    (programs / program).write_text(
        f'#!/bin/sh\n{event} {moves}\nPATH={os.environ["PATH"]}\nexec {program} "$@"\n'
    )
    (programs / program).chmod(0o755)
    done = subprocess.run(
        ["sh"],
        input=read_script([str(stays), str(moves)]),
        env={"PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    states = parse_states(Answer.of(done.stdout))
    assert {path: state.text for path, state in states.items()} == {str(stays): "one\n"}
