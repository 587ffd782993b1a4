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


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process in a control group, by a name and with arguments."""
    if GROUPS is None or os.geteuid() != 0:
        pytest.skip("no control group can be made here")
    with starting(tmp_path) as start:
        yield start


def work(shell: list[str]) -> OtherWork:
    script = scripts.library("node/work") + "WORK_SAMPLES=1000\n" + scripts.call("tell_work")
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
SHORT = f"container {ID[:12]}"
NOTHING = ("", "")
BY_GROUP = {
    "slurm-v1": ("/slurm/uid_1000/job_123/step_0", ("slurm", "job 123")),
    "slurm-v2": ("/system.slice/slurmstepd.scope/job_7/step_extern/user/task_0", ("slurm", "job 7")),
    "slurm-several-daemons": ("/system.slice/n1_slurmstepd.scope/job_7/step_0", ("slurm", "job 7")),
    "slurm-waits-for-jobs": ("/system.slice/slurmstepd.scope/system", NOTHING),
    "slurmd": ("/system.slice/slurmd.service", NOTHING),
    "pbs": ("/pbs_jobs.service/jobid/12.server", ("pbs", "job 12.server")),
    "pbspro": ("/pbspro/12.server", ("pbs", "job 12.server")),
    "lsf": ("/lsf/cluster1/job.123.456.789", ("lsf", "job 123.456.789")),
    "htcondor": ("/htcondor/condor_var_lib_slot1_2@host", ("htcondor", "slot 1_2@host")),
    "docker-systemd": (f"/system.slice/docker-{ID}.scope", ("docker", SHORT)),
    "docker-cgroupfs": (f"/docker/{ID}", ("docker", SHORT)),
    "docker-with-systemd-inside": (f"/docker/{ID}/system.slice/x.service", ("docker", SHORT)),
    "docker-rootless": (
        f"/user.slice/user-1.slice/user@1.service/app.slice/docker-{ID}.scope",
        ("docker", SHORT),
    ),
    "dockerd": ("/system.slice/docker.service", NOTHING),
    "podman": (f"/machine.slice/libpod-{ID}.scope/container", ("podman", SHORT)),
    "podman-conmon": (f"/machine.slice/libpod-conmon-{ID}.scope", ("podman", SHORT)),
    "podman-quadlet": (f"/system.slice/x.service/libpod-payload-{ID}", ("podman", SHORT)),
    "nerdctl": (f"/system.slice/nerdctl-{ID}.scope", ("containerd", SHORT)),
    "lxd": ("/lxc.payload.alice/system.slice/x.service", ("lxc", "container alice")),
    "lxc-v1": ("/lxc/alice", ("lxc", "container alice")),
    "nspawn": (
        "/machine.slice/systemd-nspawn@a.service/payload",
        ("lxc", "machine systemd-nspawn@a.service"),
    ),
    "libvirt": (
        r"/machine.slice/machine-qemu\x2d1\x2dvm1.scope/libvirt/emulator",
        ("vm", r"machine 1\x2dvm1"),
    ),
    "proxmox": ("/qemu.slice/100.scope", ("vm", "machine 100")),
    "a-pod-by-docker": (f"/kubepods.slice/kubepods-pod1.slice/docker-{ID}.scope", NOTHING),
    "a-virtual-machine-in-a-pod": ("/kubepods/burstable/pod1/machine.slice/machine-qemu.scope", NOTHING),
    "a-login": ("/user.slice/user-0.slice/session-1.scope", NOTHING),
}


@pytest.mark.parametrize(("group", "expected"), BY_GROUP.values(), ids=BY_GROUP)
def test_control_group_shows_the_work_of_a_process(shell, start, group, expected):
    assert of(start(group), work(shell)) == [expected] * bool(expected[0])


SHIM = "containerd-shim-runc-v2"
BY_NAME = {
    "qemu": ("qemu-system-x86_64", (), ["vm"]),
    "kvm": ("kvm", (), ["vm"]),
    "firecracker": ("firecracker", (), ["vm"]),
    "slurmstepd": ("slurmstepd", (), ["slurm"]),
    "slurmstepd-without-a-job": ("slurmstepd", ("infinity",), []),
    "slurmd": ("slurmd", (), []),
    "condor": ("condor_starter", (), ["htcondor"]),
    "a-shim": (SHIM, ("-namespace", "default", "-id", ID, "-address", "/run/c"), ["containerd"]),
    "a-pod's-shim": (SHIM, ("-namespace", "k8s.io", "-id", ID), []),
    "docker's-shim": (SHIM, ("-namespace", "moby", "-id", ID, "-address", "/run/c"), ["docker"]),
}


@pytest.mark.parametrize(("name", "arguments", "kinds"), BY_NAME.values(), ids=BY_NAME)
def test_process_name_shows_work_without_its_own_control_group(shell, start, name, arguments, kinds):
    pid = start("/system.slice/x.service", name, *arguments)
    assert [kind for kind, _ in of(pid, work(shell))] == kinds


@pytest.mark.parametrize("group", ["/kubepods/burstable/pod1/1f", "/system.slice/containerd.service"])
def test_virtual_machine_in_a_pod_belongs_to_the_pod(shell, start, group):
    assert of(start(group, "qemu-system-x86_64"), work(shell)) == []


def test_containers_are_listed_once_and_a_few_per_kind(shell, start):
    for container in ("a", "a", "b", "c", "d", "e"):
        start(f"/docker/{container * 64}")
    script = scripts.library("node/work") + scripts.call("tell_work")
    done = subprocess.run([*shell, "-s"], input=script, capture_output=True, text=True, check=True)
    found = read_work(done.stdout.splitlines())
    assert len(found.found["docker"]) == len({line.partition(",")[0] for line in found.found["docker"]}) == 3
    assert "docker" in found.more
    assert found.ended_without(()).count("container") == 3
    assert ", and more" in found.ended_without(())


def test_unreadable_processes_are_unknown(shell, tmp_path):
    (tmp_path / "grep").write_text("#!/bin/sh\nexit 2\n")
    (tmp_path / "grep").chmod(0o755)
    script = scripts.library("node/work") + scripts.call("tell_work")
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
