"""Evidence of work that is no pod's: what work.sh finds among real processes in real control groups."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaforge.lib import shell as scripts
from numaforge.node.work import KINDS, OtherWork, read_work
from tests.fixtures.control_groups import GROUPS, Start, starting
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process in a control group, by a name and with arguments."""
    if GROUPS is None or os.geteuid() != 0:
        pytest.skip("no control group can be made here")
    with starting(tmp_path) as start:
        yield start


def work(shell: list[str]) -> OtherWork:
    script = scripts.library("node/pods", "node/work") + "WORK_SAMPLES=1000\n" + scripts.call("tell_work")
    done = subprocess.run([*shell, "-s"], input=script, capture_output=True, text=True, check=True)
    return read_work(done.stdout.splitlines())


def of(pid: int, found: OtherWork) -> list[tuple[str, str]]:
    """Return the kind and the words of what one process shows: others of this machine are not the test's."""
    return [
        (kind, line.partition(", process ")[0])
        for kind, lines in found.found.items()
        for line in lines
        if f", process {pid} (" in line
    ]


ID = "0f2c8a519c394be19d0c6a2b8a3a1c770f2c8a519c394be19d0c6a2b8a3a1c77"


@cases("group, expected", CASES["groups"])
def test_control_group_shows_the_work_of_a_process(shell, start, group, expected):
    found = of(start(group.replace("$ID", ID)), work(shell))
    assert found == ([tuple(expected)] if expected else [])


@cases("name, arguments, kinds", CASES["names"])
def test_process_name_shows_work_without_its_own_control_group(shell, start, name, arguments, kinds):
    pid = start("/system.slice/x.service", name, *(word.replace("$ID", ID) for word in arguments))
    assert [kind for kind, _ in of(pid, work(shell))] == kinds


@pytest.mark.parametrize("group", ["/kubepods/burstable/pod1/1f", "/system.slice/containerd.service"])
def test_virtual_machine_in_a_pod_belongs_to_the_pod(shell, start, group):
    assert of(start(group, "qemu-system-x86_64"), work(shell)) == []


def test_containers_are_listed_once_and_a_few_per_kind(shell, start):
    for container in ("a", "a", "b", "c", "d", "e"):
        start(f"/docker/{container * 64}")
    script = scripts.library("node/pods", "node/work") + scripts.call("tell_work")
    done = subprocess.run([*shell, "-s"], input=script, capture_output=True, text=True, check=True)
    found = read_work(done.stdout.splitlines())
    assert len(found.found["docker"]) == len({line.partition(",")[0] for line in found.found["docker"]}) == 3
    assert "docker" in found.more
    assert found.ended_without(()).count("container") == 3
    assert ", and more" in found.ended_without(())


def test_unreadable_processes_are_unknown(shell, tmp_path):
    (tmp_path / "grep").write_text("#!/bin/sh\nexit 2\n")
    (tmp_path / "grep").chmod(0o755)
    script = scripts.library("node/pods", "node/work") + scripts.call("tell_work")
    done = subprocess.run(
        [*shell, "-s"], input=script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    found = read_work(done.stdout.splitlines())
    assert found.ended_without(KINDS) == "the processes cannot be read"


def test_permitted_kinds_of_work_are_left_out():
    found = OtherWork({"slurm": ("job 1, process 2 (a)",), "docker": ("container b, process 3 (c)",)})
    assert found.ended_without({"docker"}) == "slurm: job 1, process 2 (a)"
    assert found.ended_without({"docker", "slurm"}) == ""
    assert re.search("scontrol", found.way_out({"docker"}))
    assert not re.search("docker", found.way_out({"docker"}))
