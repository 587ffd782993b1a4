"""Work that no drain moves: a change that would end it is refused by its kind, over a real sshd."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.maintenance.look import NodeQuery, look
from numaforge.maintenance.part import Found
from numaforge.maintenance.transaction import Transaction
from numaforge.maintenance.work import KINDS
from numaforge.roles.reboot import part as reboot
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import PROFILE, with_kubelet
from tests.ssh.machine import machine, pool
from tests.ssh.pods import BIG_POOLS, JOINED, alive, pod, site
from tests.ssh.sandbox import Sandbox
from tests.ssh.transactions import run

POOL = pool(0, 2048)
SYSCTL = {**PROFILE, "tuning": {"sysctls": {"vm.swappiness": "10"}}}
ID = "0f2c8a519c39"
WORK = {
    "slurm": ("0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0", "sleep", "job 77"),
    "docker": (f"0::/system.slice/docker-{ID}{ID}.scope", "sleep", f"container {ID}"),
    "podman": (f"0::/machine.slice/libpod-{ID}{ID}.scope/container", "sleep", f"container {ID}"),
    "vm": (r"0::/machine.slice/machine-qemu\x2d1\x2dvm1.scope/libvirt/emulator", "qemu-kvm", r"1\x2dvm1"),
    "lxc": ("0::/lxc.payload.alice/init.scope", "sleep", "container alice"),
}


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    """A host without a kubelet."""
    return start_sandbox(machine())


def found(node: Sandbox) -> Found:
    asked = NodeQuery((), (), (), (), "", "")
    return look(lambda script: node.run(script).stdout.splitlines(), asked)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in ("slurm", "vm") else pytest.mark.long) for kind in WORK]
)
def test_a_change_that_would_end_work_is_refused_by_its_kind(
    node: Sandbox, tmp_path: Path, kind: str
) -> None:
    group, name, what = WORK[kind]
    pid = pod(node, group, name)
    code, said = site(tmp_path, node, BIG_POOLS)
    assert code == 1
    assert "nothing was changed, the change would end work that no drain moves: " in said
    assert f"{kind}: " in said
    assert what in said
    assert f"process {pid} ({name})" in said
    assert KINDS[kind] in said
    assert alive(node, pid)
    assert not node.path("/var/lib/numaforge/txn").exists()


def test_a_kind_is_permitted_with_its_reason_and_no_other_is(node: Sandbox, tmp_path: Path) -> None:
    for kind in ("docker", "slurm"):
        pod(node, WORK[kind][0])
    permits = {"numaforge_rollout": {"ends_work": {"docker": "an exporter, which comes back"}}}
    code, said = site(tmp_path, node, BIG_POOLS, **permits)
    assert (code, "slurm: job 77" in said, "docker: container" in said) == (1, True, False)
    both = {"numaforge_rollout": {"ends_work": dict.fromkeys(("docker", "slurm"), "a test of both")}}
    assert site(tmp_path, node, BIG_POOLS, **both)[0] == 0
    assert node.path(POOL).read_text() == "16\n"


def test_what_disturbs_nothing_is_changed_beside_work(node: Sandbox, tmp_path: Path) -> None:
    pid = pod(node, WORK["slurm"][0])
    code, said = site(tmp_path, node, SYSCTL)
    assert code == 0, said
    assert alive(node, pid)


def test_a_restart_of_the_kubelet_disturbs_pods_alone(
    start_sandbox: StartSandbox, port: int, tmp_path: Path
) -> None:
    node = start_kubelet(start_sandbox(kubeadm_files(port)), port)
    assert site(tmp_path, node, PROFILE)[0] == 0
    pod(node, WORK["docker"][0])
    code, said = site(tmp_path, node, with_kubelet(cpu_manager_policy="none"))
    assert code == 0, said


def test_a_drain_of_a_joined_node_moves_no_other_work(
    start_sandbox: StartSandbox, port: int, tmp_path: Path
) -> None:
    node = start_kubelet(start_sandbox(kubeadm_files(port, *JOINED)), port)
    pod(node, WORK["slurm"][0])
    code, said = site(tmp_path, node, BIG_POOLS)
    assert code == 1
    assert "the change would end work that no drain moves: slurm: job 77" in said
    assert "a roll-out lacks what it needs" not in said


def test_an_odd_kind_or_no_reason_is_refused_as_input(node: Sandbox, tmp_path: Path) -> None:
    for permits, message in (
        ({"jobs": "they may end"}, "'jobs' is not a kind of work; write one of slurm, "),
        ({"slurm": "yes"}, "say in a sentence why"),
    ):
        code, said = site(tmp_path, node, BIG_POOLS, numaforge_rollout={"ends_work": permits})
        assert code == 1
        assert message in said


def test_people_who_are_logged_in_are_a_note(node: Sandbox, tmp_path: Path) -> None:
    node.run("mkdir -p /run/systemd/users; printf 'NAME=alice\\nSTATE=active\\n' > /run/systemd/users/1000")
    code, said = site(tmp_path, node, BIG_POOLS)
    assert code == 0, said
    assert "logged in meanwhile: alice" in said


# ---- work that comes between the look and the change ----


def boots(found: Found, **changes: object) -> Transaction:
    return replace(
        Transaction("T1", (reboot.part(),), planned_on=found.fingerprint, pods=found.pods, work=found.work),
        **changes,
    )


def test_work_that_comes_after_the_look_makes_the_change_void(node: Sandbox) -> None:
    change = boots(found(node))
    pid = pod(node, WORK["slurm"][0])
    result = run(node, change)
    assert result.outcome == "void"
    assert result.reason == f"nothing was changed: it would end work: slurm job 77, process {pid} (sleep)"
    assert not node.path("/run/stopping").exists()


def test_work_that_is_permitted_may_come(node: Sandbox) -> None:
    change = boots(found(node), ends_work=frozenset({"slurm"}), parts=())
    pod(node, WORK["slurm"][0])
    assert run(node, change).outcome == "applied"


def test_processes_that_cannot_be_read_when_it_begins_make_it_void(node: Sandbox) -> None:
    change = boots(found(node))
    node.path("/usr/local/bin/grep").write_text(
        '#!/bin/sh\ncase $* in *slurm*) exit 2 ;; esac\nexec /bin/grep "$@"\n'
    )
    node.run("chmod 755 /usr/local/bin/grep")
    result = run(node, change)
    assert result.outcome == "void"
    assert "the processes cannot be read" in result.reason
