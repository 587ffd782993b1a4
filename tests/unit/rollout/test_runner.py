"""Names of processes: whose they are, and whether they live."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from numaforge.rollout.runner import is_gone, owner_of, this_runner

_SAY_NAME = "from numaforge.rollout.runner import this_runner; print(this_runner(), flush=True)"
_SAY_NAME_AND_WAIT = f"{_SAY_NAME}; input()"


def named(**changes: str) -> str:
    """Return the name of this process with other parts."""
    host, machine, boot, namespace, process = this_runner().split("/")
    pid, start = process.split(".")
    parts = {
        "host": host,
        "machine": machine,
        "boot": boot,
        "namespace": namespace,
        "pid": pid,
        "start": start,
    }
    return "{host}/{machine}/{boot}/{namespace}/{pid}.{start}".format(**parts | changes)


@contextmanager
def living(*command: str) -> Iterator[str]:
    """Yield the name of a runner that lives so long."""
    with subprocess.Popen(
        [*command, sys.executable, "-c", _SAY_NAME_AND_WAIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process.stdout.readline().strip()
        process.communicate("\n")


def no_namespaces() -> str | None:
    """Say why there can be no second PID namespace here, if so."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "a PID namespace needs root and unshare"
    tried = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
    )
    return tried.stderr.decode().strip() if tried.returncode else None


@pytest.fixture
def namespaces() -> None:
    if reason := no_namespaces():
        pytest.skip(reason)


def test_current_process_counts_as_alive():
    assert not is_gone(this_runner())


def test_other_living_process_does_not_count_as_gone():
    with living() as runner:
        assert not is_gone(runner)


def test_ended_process_counts_as_gone():
    ended = subprocess.run([sys.executable, "-c", _SAY_NAME], capture_output=True, text=True, check=True)
    assert is_gone(ended.stdout.strip())


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(
    "namespace",
    [
        pytest.param(("unshare", "--pid", "--fork", "--mount-proc"), id="as a container has it"),
        pytest.param(("unshare", "--pid", "--fork"), id="with the /proc of this one"),
    ],
)
def test_runner_in_another_pid_namespace_does_not_count_as_gone(namespace):
    with living(*namespace) as runner:
        assert owner_of(runner) == owner_of(this_runner())
        assert not is_gone(runner)


@pytest.mark.usefixtures("namespaces")
def test_runners_sharing_a_pid_namespace_see_each_other_end():
    script = (
        f"name=$('{sys.executable}' -c '{_SAY_NAME}'); "
        f"'{sys.executable}' -c 'import sys; from numaforge.rollout.runner import is_gone; "
        'print(is_gone(sys.argv[1]))\' "$name"'
    )
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        pytest.param({"start": "9"}, True, id="another process has its PID by now"),
        pytest.param({"pid": str(2**22 + 1)}, True, id="no process has its PID"),
        pytest.param({"boot": "another", "machine": "another", "pid": "1"}, False, id="a namesake's machine"),
        pytest.param({"boot": "another", "start": "9"}, False, id="this machine before it was started again"),
        pytest.param({"namespace": "1", "start": "9"}, False, id="another PID namespace of this boot"),
        pytest.param({"namespace": "", "start": "9"}, False, id="a PID namespace that is not known"),
        pytest.param({"boot": "", "start": "9"}, False, id="a boot that is not known"),
        pytest.param({"host": "ann@elsewhere", "start": "9"}, True, id="a hostname says nothing"),
        pytest.param({"start": ""}, False, id="a start that is not known"),
    ],
)
def test_gone_is_known_only_for_this_boot_and_namespace(changes, gone):
    assert is_gone(named(**changes)) is gone


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="nobody"),
        pytest.param("kured", id="another tool"),
        pytest.param(f"ann@{os.uname().nodename}/1a2b3c4d/17.99", id="an earlier release's form"),
    ],
)
def test_malformed_runner_name_does_not_count_as_gone(name):
    assert not is_gone(name)


@pytest.mark.parametrize("name", ["ann@gpu-admin/1a2b/17.99", "ann@gpu-admin/1a2b/3c/42/17.99"])
def test_runner_name_gives_person_and_machine(name):
    assert owner_of(name) == "ann@gpu-admin"
