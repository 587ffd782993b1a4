"""Work that no drain moves: a change that would end it is refused by its kind, over a real sshd."""

from dataclasses import replace

import pytest

from numaforge.change.look import NodeQuery, look
from numaforge.change.transaction import TRANSACTIONS, Transaction, revert_script, start_script
from numaforge.node.part import NodeState
from numaforge.node.work import KINDS
from numaforge.roles.reboot import part as reboot
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import PROFILE, with_kubelet
from tests.ssh.machine import machine, pool
from tests.ssh.pods import BIG_POOLS, JOINED, alive, comes, end, pod, site
from tests.ssh.reboots import bootable_node, change, through_boots
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import BOOT_ID
from tests.ssh.transactions import (
    CUT_POWER,
    LARGE,
    SMALL,
    applied,
    ended,
    node_with_kubelet,
    pages,
    process,
    run,
    status,
    transaction,
    until,
    when,
)
from tests.ssh.transactions import reboot as reboot_node

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


def found(node: Sandbox) -> NodeState:
    asked = NodeQuery((), (), (), (), "", "")
    return look(lambda script: node.run(script).stdout.splitlines(), asked)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in ("slurm", "vm") else pytest.mark.long) for kind in WORK]
)
def test_change_that_would_end_work_is_refused_with_the_kind_of_work(node, tmp_path, kind):
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


def test_only_kinds_of_work_permitted_with_a_reason_may_end(node, tmp_path):
    for kind in ("docker", "slurm"):
        pod(node, WORK[kind][0])
    permits = {"numaforge_rollout": {"ends_work": {"docker": "an exporter, which comes back"}}}
    code, said = site(tmp_path, node, BIG_POOLS, **permits)
    assert (code, "slurm: job 77" in said, "docker: container" in said) == (1, True, False)
    both = {"numaforge_rollout": {"ends_work": dict.fromkeys(("docker", "slurm"), "a test of both")}}
    assert site(tmp_path, node, BIG_POOLS, **both)[0] == 0
    assert node.path(POOL).read_text() == "16\n"


@pytest.mark.long
def test_harmless_change_applies_beside_work(node, tmp_path):
    pid = pod(node, WORK["slurm"][0])
    code, said = site(tmp_path, node, SYSCTL)
    assert code == 0, said
    assert alive(node, pid)


@pytest.mark.long
def test_kubelet_restart_disturbs_only_pods(start_sandbox, port, tmp_path):
    node = start_kubelet(start_sandbox(kubeadm_files(port)), port)
    assert site(tmp_path, node, PROFILE)[0] == 0
    pod(node, WORK["docker"][0])
    code, said = site(tmp_path, node, with_kubelet(cpu_manager_policy="none"))
    assert code == 0, said


def test_drain_of_a_joined_node_moves_no_other_work(start_sandbox, port, tmp_path):
    node = start_kubelet(start_sandbox(kubeadm_files(port, *JOINED)), port)
    pod(node, WORK["slurm"][0])
    code, said = site(tmp_path, node, BIG_POOLS)
    assert code == 1
    assert "the change would end work that no drain moves: slurm: job 77" in said
    assert "a roll-out lacks what it needs" not in said


def test_unknown_kind_of_work_or_missing_reason_is_refused_as_input(node, tmp_path):
    for permits, message in (
        ({"jobs": "they may end"}, "'jobs' is not a kind of work; write one of slurm, "),
        ({"slurm": "yes"}, "give the reason in one sentence"),
    ):
        code, said = site(tmp_path, node, BIG_POOLS, numaforge_rollout={"ends_work": permits})
        assert code == 1
        assert message in said


def test_logged_in_people_are_a_note(node, tmp_path):
    node.run("mkdir -p /run/systemd/users; printf 'NAME=alice\\nSTATE=active\\n' > /run/systemd/users/1000")
    code, said = site(tmp_path, node, BIG_POOLS)
    assert code == 0, said
    assert "logged in meanwhile: alice" in said


# ---- work that comes between the look and the change ----


def boots(found: NodeState, **changes: object) -> Transaction:
    return replace(
        Transaction("T1", (reboot.part(),), planned_on=found.fingerprint, pods=found.pods, work=found.work),
        **changes,
    )


def test_work_started_after_the_look_voids_the_change(node):
    change = boots(found(node))
    pid = pod(node, WORK["slurm"][0])
    result = run(node, change)
    assert result.outcome == "void"
    assert result.reason == f"nothing was changed: it would end work: slurm job 77, process {pid} (sleep)"
    assert not node.path("/run/stopping").exists()


def test_permitted_work_may_start_after_the_look(node):
    change = boots(found(node), ends_work=frozenset({"slurm"}), parts=())
    pod(node, WORK["slurm"][0])
    assert run(node, change).outcome == "applied"


# ---- work that comes while the change is carried out ----

JOB = WORK["slurm"][0]


@pytest.fixture
def kubelet_node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return node_with_kubelet(start_sandbox, port)


def parked(node: Sandbox, step: str) -> int:
    """Wait until that step is parked for the job that came; return the job's process."""
    until(node, f"grep -qsx 'parked {step}' {TRANSACTIONS}/T1/state")
    pid = int(node.path("/run/pod").read_text())
    assert status(node).parked == f"it would end work: slurm job 77, process {pid} (sleep)"
    assert alive(node, pid)
    return pid


def test_job_started_midway_parks_the_next_disruptive_step(kubelet_node, port):
    comes(kubelet_node, "apply kernel_values", JOB)
    kubelet_node.run(start_script(transaction(port, "new")))
    pid = parked(kubelet_node, "apply hugepages")
    assert pages(kubelet_node) == {LARGE: 1, SMALL: 512}
    end(kubelet_node, pid)
    assert ended(kubelet_node).outcome == "applied"


def test_undo_waits_for_a_newly_started_job_with_the_kubelet_running(kubelet_node, port):
    applied(kubelet_node, transaction(port, "new"))
    kubelet_node.path("/run/pod").write_text(f"{pod(kubelet_node, JOB)}\n")
    kubelet = process(kubelet_node).pid
    kubelet_node.run(revert_script("T1", "the node is not Ready", status(kubelet_node)))
    pid = parked(kubelet_node, "stop kubelet")
    assert process(kubelet_node).pid == kubelet != 0
    end(kubelet_node, pid)
    assert ended(kubelet_node).outcome == "rolled-back"


@pytest.mark.variants(1)
@cases(
    "group, name",
    {
        "a-group": (f"0::/user.slice/user-1000.slice/x{JOB.removeprefix('0::')}", "sleep"),
        "a-name": ("0::/user.slice/user-1000.slice/session-1.scope", "qemu-kvm"),
    },
)
def test_user_process_posing_as_work_does_not_delay_undo(kubelet_node, port, group, name):
    applied(kubelet_node, transaction(port, "new"))
    pod(kubelet_node, group, name, user=1000)
    kubelet_node.run(revert_script("T1", "the node is not Ready", status(kubelet_node)))
    assert ended(kubelet_node).outcome == "rolled-back"
    assert not kubelet_node.path(f"{TRANSACTIONS}/T1/parked").exists()


@pytest.mark.variants(1)
@pytest.mark.parametrize("event", ["apply reboot", "undo files"])
def test_reboot_of_a_change_waits_for_a_newly_started_job(start_sandbox, port, event):
    node = bootable_node(start_sandbox, port)
    if event.startswith("undo"):
        node.run(start_script(change(port)))
        assert through_boots(node).outcome == "applied"
        comes(node, event, JOB)
        node.run(revert_script("T1", "the node is not Ready", status(node)))
    else:
        comes(node, event, JOB)
        node.run(start_script(change(port)))
    pid = parked(node, "reboot")
    assert not node.path("/run/stopping").exists()
    end(node, pid)
    assert through_boots(node).outcome == ("rolled-back" if event.startswith("undo") else "applied")


@pytest.mark.long
def test_boot_rollback_waits_for_no_work(kubelet_node, port):
    when(kubelet_node, "apply kubelet", CUT_POWER)
    kubelet_node.run(start_script(transaction(port, "new")))
    until(kubelet_node, f"grep -q second {BOOT_ID}")
    job = pod(kubelet_node, JOB)
    reboot_node(kubelet_node)
    assert ended(kubelet_node).outcome == "rolled-back"
    assert alive(kubelet_node, job)
    assert pages(kubelet_node) == {LARGE: 1, SMALL: 512}
