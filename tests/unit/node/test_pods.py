"""Evidence of pods: what pods.sh finds among the processes of this machine, and what is made of it."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from numaforge.change.transaction import STATIC_PODS, Transaction
from numaforge.lib import shell as scripts
from numaforge.node.holders import uid_in
from numaforge.node.part import Part
from numaforge.node.pods import Pods, read_pods, root_dirs
from tests.fixtures.control_groups import alone
from tests.fixtures.machines import kubeadm_kubelet
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

Start = Callable[..., int]
WAITS = "#!/bin/sh\nread -r line\n"
"""A program that goes on until its standard input ends."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes by name, with arguments; they end with the test."""
    with alone(), ExitStack() as stack:

        def started(name: str, *arguments: str, folder: Path | None = None) -> int:
            program = tmp_path / "programs" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(WAITS + "# it is read before its name is asked for\n")
            program.chmod(0o755)
            process = subprocess.Popen(
                [program, *arguments], stdin=subprocess.PIPE, cwd=folder
            )  # its name is its own by now
            stack.callback(process.wait)
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


@cases("name, arguments, why", CASES["runtime_processes"])
def test_runtime_process_of_pod_containers_is_evidence_of_pods(shell, start, name, arguments, why):
    pid = start(name, *arguments)
    assert of(pid, told(shell).alive) == ([f"process {pid} {why}"] if why else [])


UID = "0f2c8a51-9c39-4be1-9d0c-6a2b8a3a1c77"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
STATIC = "e1c4a3f0b2d5968778695a4b3c2d1e0f"
LOG = f"/var/log/pods/web_train-0_{UID}/main/0.log"
SHIM = ("-namespace", "k8s.io", "-id", "a")


@cases(
    "group, uid",
    {
        "cgroupfs": (f"/kubepods/besteffort/pod{UID}/1f", UID),
        "cgroupfs-guaranteed": (f"/kubepods/pod{UID}", UID),
        "systemd": (f"/kubepods.slice/kubepods-burstable.slice/{SLICE}/cri-1f.scope/a", UID),
        "systemd-static-guaranteed": (f"/kubepods.slice/kubepods-pod{STATIC}.slice", STATIC),
        "a-root-of-its-own": (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-{SLICE}/1f", UID),
        "below-k3s": (f"/a.slice/k3s.service/kubepods/burstable/pod{STATIC}/1f", STATIC),
        "the-outermost-pod": (f"/kubepods/burstable/pod{UID}/1f/kubepods/pod{STATIC}", UID),
        "of-no-pod": ("/kubepods/burstable", ""),
        "of-no-pod-of-systemd": ("/kubepods.slice/kubepods-burstable.slice/x.scope", ""),
    },
)
def test_pod_of_a_control_group_is_found(shell, group, uid):
    script = scripts.library("node/pods") + scripts.call("find_uid", [group]) + 'echo "$uid"\n'
    done = subprocess.run([*shell, "-s"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == uid.replace("-", "_") == uid_in(group)


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts processes of others")
def test_user_process_named_like_a_pod_does_not_count_as_pod(shell, tmp_path):
    group = tmp_path / "1" / "cgroup"
    group.parent.mkdir()
    group.write_text(f"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}\n")
    script = f"cd {tmp_path}\n" + scripts.library("node/pods") + "if in_pod 1; then exit 3; fi\n"
    assert subprocess.run([*shell, "-s"], input=script, text=True, check=False).returncode == 0
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        program = Path(folder, "containerd-shim-runc-v2")
        program.write_text(WAITS)
        for path in (Path(folder), program):
            path.chmod(0o755)
        process = subprocess.Popen([program, *SHIM], stdin=subprocess.PIPE, user=65534)
        try:
            assert of(process.pid, told(shell).alive) == []
        finally:
            process.communicate()


def foreign(shell: list[str], lease: Path, *, renewed: bool = False) -> list[str]:
    """Return what is foreign to a lease, which has a line for what keeps unknown pods once it is renewed."""
    keep = f"keepers_that_stay >> {lease}/allowed\n" if renewed else ""
    script = f'FOLDER={lease}\n{scripts.library("node/pods")}{keep}if foreign_pods; then echo "$why"; fi\n'
    done = subprocess.run([*shell, "-s"], input=script, capture_output=True, text=True, check=True)
    return done.stdout.strip().partition("must not be disturbed: ")[2].split("; ")


@cases(
    "name, arguments, described",
    {
        "a-shim-by-the-sandbox-that-it-works-in": ("containerd-shim-runc-v2", SHIM, True),
        "a-conmon-by-its-log": ("conmon", ("-c", "a", "-l", LOG, "-b", "/run/crio/a"), False),
    },
)
@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "foreign"])
def test_runtime_process_is_foreign_unless_its_pod_is_allowed(
    shell, start, tmp_path, name, arguments, described, allowed
):
    if described:
        sandbox = {
            "annotations": {"io.kubernetes.cri.sandbox-name": "web", "io.kubernetes.cri.sandbox-uid": UID}
        }
        (tmp_path / "config.json").write_text(json.dumps(sandbox, separators=(",", ":")))
    (tmp_path / "allowed").write_text(f"{STATIC}\n{UID if allowed else 'other'}\n")
    pid = start(name, *arguments, folder=tmp_path)
    found = [text for text in foreign(shell, tmp_path) if text.startswith(f"process {pid} ")]
    assert len(found) == (0 if allowed else 1)


@cases(
    "uid, stays",
    {
        "a-static-pod": (STATIC, True),
        "a-pod-of-the-API-server": (UID, False),
        "an-odd-name": ("x" * 32, False),
    },
)
def test_lease_may_allow_every_static_pod(shell, start, tmp_path, uid, stays):
    (tmp_path / "allowed").write_text(f"{STATIC_PODS}\n")
    log = LOG.replace(UID, uid)
    pid = start("conmon", "-c", "a", "-l", log, "-b", "/run/crio/a", folder=tmp_path)
    found = of(pid, tuple(foreign(shell, tmp_path)))
    assert (found == []) is stays


def test_shim_of_unknown_pod_stays_allowed_if_seen_at_the_drain(shell, start, tmp_path):
    (tmp_path / "allowed").write_text("")
    first = start("containerd-shim-runc-v2", *SHIM, folder=tmp_path)
    assert of(first, tuple(foreign(shell, tmp_path)))
    assert not of(first, tuple(foreign(shell, tmp_path, renewed=True)))
    second = start("containerd-shim-kata-v2", *SHIM, folder=tmp_path)
    found = tuple(foreign(shell, tmp_path))
    assert (of(first, found), len(of(second, found))) == ([], 1)


@pytest.mark.parametrize("name", ["kubelet", "kubelite", "k3s-agent", "k3s-server"])
def test_process_that_can_start_pods_is_reported_as_a_kubelet(shell, start, name):
    pid = start(name)
    found = told(shell)
    assert of(pid, found.kubelets) == [f"process {pid} ({name})"]
    assert of(pid, found.alive) == []


def test_pod_folder_means_kubelet_restarts_the_pod(shell, tmp_path):
    for name in ("with pods/pods/0a1b", "with pods/pods/0a1c", "without/pods"):
        (tmp_path / name).mkdir(parents=True)
    roots = [tmp_path / name for name in ("with pods", "without", "missing")]
    assert told(shell, *roots).left == (f"{tmp_path}/with pods/pods/0a1b",)


@pytest.mark.parametrize(
    "text", ["", "echo 1/cgroup\n"], ids=["cannot-be-started", "ends-before-it-has-read-all"]
)
def test_unreadable_processes_are_unknown_and_not_absent(tmp_path, text):
    (tmp_path / "grep").write_text(f"#!/bin/sh\n{text}exit 2\n")
    (tmp_path / "grep").chmod(0o755)
    found = told(["/bin/sh"], path=str(tmp_path))
    assert found.unknown == ("the processes cannot be read",)
    assert found.may_run


DISTURBS = Part("reboot", drains=True)
NONE, ALIVE = Pods(), Pods(alive=("process 7 (python3) in /kubepods/pod1",))
LEFT, STARTS = Pods(left=("/var/lib/kubelet/pods/1",)), Pods(kubelets=("process 8 (kubelet)",))
UNKNOWN = Pods(unknown=("the processes cannot be read",))


@cases(
    "pods, drains, lease",
    {
        "no-evidence-no-drain-and-none-may-come": (NONE, False, ()),
        "pods-that-run-have-to-go": (ALIVE, True, None),
        "unknown-counts-as-pods": (UNKNOWN, True, None),
        "pods-that-come-back-have-to-go": (LEFT, True, ()),
        "a-kubelet-that-runs-may-start-one": (STARTS, True, ()),
    },
)
def test_evidence_of_pods_decides_drain_and_lease(pods, drains, lease):
    change = Transaction("T1", (DISTURBS,), pods=pods)
    assert (change.drains, change.lease, change.settings["DISTURBING"]) == (drains, lease, "reboot")


@pytest.mark.parametrize("pods", [NONE, ALIVE, UNKNOWN], ids=["none", "alive", "unknown"])
def test_change_that_disturbs_no_pod_is_neither_drained_nor_checked(pods):
    change = Transaction("T1", (Part("files"),), pods=pods)
    assert (change.drains, change.lease, change.settings["DISTURBING"]) == (False, None, "")


def test_lease_of_a_drained_node_names_the_pods_that_may_stay():
    files = Transaction("T1", (DISTURBS,), pods=ALIVE, allowed=("1f2e", "3d4c")).files
    assert files["allowed"] == "1f2e\n3d4c\n"


def test_reboot_undone_change_rolls_back_only_beside_static_pods():
    assert Transaction("T1", (DISTURBS,), pods=NONE, undone_by_boot=True).files["allowed"] == "static\n"
    assert "allowed" not in Transaction("T1", (DISTURBS,), pods=ALIVE, undone_by_boot=True).files


def test_empty_lease_differs_from_no_lease():
    assert Transaction("T1", (DISTURBS,), pods=ALIVE, allowed=()).files["allowed"] == ""
    assert "allowed" not in Transaction("T1", (DISTURBS,), pods=ALIVE).files


def test_pods_are_searched_below_every_possible_kubelet_root():
    assert root_dirs(kubeadm_kubelet(), "/srv/kubelet/") == (
        "/var/lib/kubelet",
        "/srv/kubelet",
        "/var/snap/microk8s/common/var/lib/kubelet",
    )
