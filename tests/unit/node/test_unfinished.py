"""A change whose outcome is written has ended, though its process still removes what it no longer needs."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from numaforge.change.transaction import TRANSACTIONS, status_script
from numaforge.lib import shell

UNDONE = {"result.json": "{}", "revert": "an admin asked", "applied.json": "{}", "state": "undo files"}
ENDED = [
    pytest.param({"result.json": "{}", "state": "commit files"}, id="applied"),
    pytest.param(UNDONE, id="undone on request"),
]
OPEN = [
    pytest.param({"state": "apply files"}, "works", id="applies"),
    pytest.param(
        {"state": "commit files", "result.json": "{}", "revert": "an admin asked"},
        "undone",
        id="to be undone",
    ),
    pytest.param(
        {"state": "undo files", "revert": "an admin asked", "applied.json": "{}"}, "undone", id="is undone"
    ),
]


@pytest.fixture
def transactions(tmp_path: Path) -> Path:
    (tmp_path / "txn/T1").mkdir(parents=True)
    (tmp_path / "txn/T1/alive").touch()
    (tmp_path / "txn/current").symlink_to("T1")
    return tmp_path / "txn"


@contextmanager
def worked_on(transactions: Path) -> Iterator[None]:
    """Hold the lock that the process of a transaction holds."""
    with (transactions / "T1/alive").open() as alive:
        subprocess.run(["flock", "-n", "0"], stdin=alive, check=True)
        yield


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


def seen(transactions: Path) -> list[str]:
    """Return the words with which a look tells of an unfinished change."""
    script = shell.library("node/unfinished") + shell.call("tell_unfinished", [str(transactions)])
    return subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True).stdout.split()[:3]


@pytest.mark.parametrize("files", ENDED)
def test_look_sees_no_change_where_the_outcome_is_written(transactions, files):
    write(transactions / "T1", files)
    with worked_on(transactions):
        assert seen(transactions) == []


@pytest.mark.parametrize(("files", "how"), OPEN)
def test_look_sees_the_change_that_a_process_works_on(transactions, files, how):
    write(transactions / "T1", files)
    with worked_on(transactions):
        assert seen(transactions) == ["unfinished", "T1", how]


def test_look_sees_a_change_whose_process_died_before_it_tidied_up(transactions):
    write(transactions / "T1", UNDONE)
    assert seen(transactions) == ["unfinished", "T1", "left"]


def removal(node: Path) -> str:
    """Return the script that removes the records of a node whose folders lie below `node`."""
    names = ("STATE", "RUN", "EDITS", "RECORDS", "PLAN", "GUARD", "MODPROBE", "PROGRAMS", "CONFIG_DIR")
    folders = {"ROOT": str(node / "txn"), **{name: str(node / name.lower()) for name in names}}
    text = shell.library("node/paths", "run/forget").replace("RECORDS=/etc/numaforge\n", "")
    return shell.assignments(folders) + text + shell.call("forget", [""])


def is_waited_for(file: Path) -> bool:
    """Whether a process waits for the lock of a file."""
    waiting = (line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line)
    return any(words[6].endswith(f":{file.stat().st_ino}") for words in waiting)


def test_removal_of_the_records_waits_for_the_process_that_tidies_up(tmp_path, transactions):
    write(transactions / "T1", UNDONE)
    (tmp_path / "state").mkdir()
    with worked_on(transactions):
        forget = subprocess.Popen(["sh", "-c", removal(tmp_path)], stderr=subprocess.PIPE, text=True)
        while forget.poll() is None and not is_waited_for(transactions / "T1/alive"):
            os.sched_yield()
        (transactions / "current").unlink()
    assert (forget.communicate()[1], forget.returncode) == ("", 0)
    assert not (tmp_path / "state").exists()


def test_result_is_told_once_the_process_that_wrote_it_has_tidied_up(transactions):
    write(transactions / "T1", {"result.json": '{"id": "T1"}', "state": "commit files"})
    script = status_script("T1").replace(TRANSACTIONS, str(transactions))
    with worked_on(transactions):
        asked = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
        while asked.poll() is None and not is_waited_for(transactions / "T1/alive"):
            os.sched_yield()
        assert asked.poll() is None
        (transactions / "current").unlink()
    assert '{"id": "T1"}' in asked.communicate()[0].splitlines()
