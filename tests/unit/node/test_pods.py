"""Evidence of pods: what pods.sh finds among the processes of this machine, and what is made of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from numaforge import shell as scripts
from numaforge.maintenance.part import Part
from numaforge.maintenance.pods import Pods, read_pods, root_dirs
from numaforge.maintenance.transaction import Transaction
from tests.fixtures.machines import kubeadm_kubelet

Start = Callable[..., int]
WAITS = "#!/bin/sh\nread -r line\n"
"""A program that goes on until its standard input ends."""


@pytest.fixture(params=["dash", "bash", "busybox sh"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    command = request.param.split()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return [shutil.which(command[0]) or "", *command[1:]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes by name, with arguments; they end with the test."""
    with ExitStack() as stack:

        def started(name: str, *arguments: str) -> int:
            program = tmp_path / "programs" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(WAITS + "# it is read before its name is asked for\n")
            program.chmod(0o755)
            process = subprocess.Popen(
                [program, *arguments], stdin=subprocess.PIPE
            )  # its name is its own by now
            stack.callback(process.wait)
            assert process.stdin
            stack.callback(process.stdin.close)
            return process.pid

        yield started


def told(shell: list[str], *roots: Path, path: str = os.environ["PATH"]) -> Pods:
    script = scripts.library("node/pods") + scripts.call("tell_pods", [str(root) for root in roots])
    done = subprocess.run(
        [*shell, "-s"], input=script, env={"PATH": path}, capture_output=True, text=True, check=True
    )
    return read_pods(done.stdout.splitlines())


def of(pid: int, evidence: tuple[str, ...]) -> list[str]:
    """Return the evidence that one process gives: others of this machine are not the test's."""
    return [text for text in evidence if text.startswith(f"process {pid} ")]


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        pytest.param(
            "containerd-shim-runc-v2",
            ("-namespace", "k8s.io", "-id", "a", "-address", "/run/containerd/containerd.sock"),
            "(containerd-shim) of containerd's namespace k8s.io",
            id="containerd's-shim",
        ),
        pytest.param(
            "containerd-shim-kata-v2",
            ("-namespace", "k8s.io", "-id", "a"),
            "(containerd-shim) of containerd's namespace k8s.io",
            id="kata's-shim",
        ),
        pytest.param(
            "conmon",
            ("-c", "a", "-l", "/var/log/pods/ns_pod_uid/c/0.log", "--exit-dir", "/var/run/crio/exits"),
            "(conmon) of CRI-O",
            id="crio's-conmon",
        ),
        pytest.param("conmonrs", ("--runtime-dir", "/run/crio/a"), "(conmonrs) of CRI-O", id="conmon-rs"),
        pytest.param("containerd-shim-runc-v2", ("-namespace", "moby", "-id", "a"), None, id="docker's-shim"),
        pytest.param("conmon", ("--exit-dir", "/run/libpod/exits"), None, id="podman's-conmon"),
    ],
)
def test_what_keeps_the_containers_of_pods_is_evidence(
    shell: list[str], start: Start, name: str, arguments: tuple[str, ...], why: str | None
) -> None:
    pid = start(name, *arguments)
    assert of(pid, told(shell).alive) == ([f"process {pid} {why}"] if why else [])


@pytest.mark.parametrize("name", ["kubelet", "kubelite", "k3s-agent", "k3s-server"])
def test_a_process_that_may_start_pods_is_named_by_itself(shell: list[str], start: Start, name: str) -> None:
    pid = start(name)
    found = told(shell)
    assert of(pid, found.kubelets) == [f"process {pid} ({name})"]
    assert of(pid, found.alive) == []


def test_the_folder_of_a_pod_says_that_its_kubelet_starts_it_again(shell: list[str], tmp_path: Path) -> None:
    for name in ("with pods/pods/0a1b", "with pods/pods/0a1c", "without/pods"):
        (tmp_path / name).mkdir(parents=True)
    roots = [tmp_path / name for name in ("with pods", "without", "missing")]
    assert told(shell, *roots).left == (f"{tmp_path}/with pods/pods/0a1b",)


@pytest.mark.parametrize(
    "text", ["", "echo 1/cgroup\n"], ids=["cannot-be-started", "ends-before-it-has-read-all"]
)
def test_processes_that_could_not_be_read_are_unknown_and_not_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "grep").write_text(f"#!/bin/sh\n{text}exit 2\n")
    (tmp_path / "grep").chmod(0o755)
    found = told(["/bin/sh"], path=str(tmp_path))
    assert found.unknown == ("the processes cannot be read",)
    assert found.may_run


DISTURBS = Part("reboot", drains=True)
NONE, ALIVE = Pods(), Pods(alive=("process 7 (python3) in /kubepods/pod1",))
LEFT, STARTS = Pods(left=("/var/lib/kubelet/pods/1",)), Pods(kubelets=("process 8 (kubelet)",))
UNKNOWN = Pods(unknown=("the processes cannot be read",))


@pytest.mark.parametrize(
    ("pods", "drains", "lease"),
    [
        pytest.param(NONE, False, (), id="no-evidence-no-drain-and-none-may-come"),
        pytest.param(ALIVE, True, None, id="pods-that-run-have-to-go"),
        pytest.param(UNKNOWN, True, None, id="unknown-counts-as-pods"),
        pytest.param(LEFT, True, (), id="pods-that-come-back-have-to-go"),
        pytest.param(STARTS, True, (), id="a-kubelet-that-runs-may-start-one"),
    ],
)
def test_a_change_that_disturbs_is_drained_by_the_evidence_and_says_what_the_node_checks(
    pods: Pods, drains: bool, lease: tuple[str, ...] | None
) -> None:
    change = Transaction("T1", (DISTURBS,), pods=pods)
    assert (change.drains, change.lease, change.settings["DISTURBING"]) == (drains, lease, "reboot")


@pytest.mark.parametrize("pods", [NONE, ALIVE, UNKNOWN], ids=["none", "alive", "unknown"])
def test_what_disturbs_no_pod_is_neither_drained_nor_checked(pods: Pods) -> None:
    change = Transaction("T1", (Part("files"),), pods=pods)
    assert (change.drains, change.lease, change.settings["DISTURBING"]) == (False, None, "")


def test_the_lease_of_a_drained_node_names_the_pods_that_may_stay() -> None:
    files = Transaction("T1", (DISTURBS,), pods=ALIVE, allowed=("1f2e", "3d4c")).files
    assert files["allowed"] == "1f2e\n3d4c\n"


def test_a_lease_without_pods_is_not_the_same_as_no_lease() -> None:
    assert Transaction("T1", (DISTURBS,), pods=ALIVE, allowed=()).files["allowed"] == ""
    assert "allowed" not in Transaction("T1", (DISTURBS,), pods=ALIVE).files


def test_pods_are_looked_for_below_every_root_that_a_kubelet_may_have() -> None:
    assert root_dirs(kubeadm_kubelet(), "/srv/kubelet/") == (
        "/var/lib/kubelet",
        "/srv/kubelet",
        "/var/snap/microk8s/common/var/lib/kubelet",
    )
