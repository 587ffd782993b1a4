"""AMD GPUs that get other modes within a transaction: the planned ones or those that they had."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from numaforge.change.look import NodeQuery, look
from numaforge.change.transaction import Transaction, revert_script, start_script
from numaforge.node.program import holders_source
from numaforge.node.worker_part import units_of
from numaforge.roles.amd_partitions import part as amd
from numaforge.roles.amd_partitions.files import AMD_UNIT_PATH
from numaforge.roles.amd_partitions.part import BOOT_LINK
from numaforge.verification import suite
from tests.fixtures.shortened import shortened
from tests.fixtures.tables import cases, tables
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import KUBELET_WAIT
from tests.ssh.parts.amd_partitions import (
    IS,
    SUBJECT,
    WAS,
    active,
    as_said,
    assert_new,
    assert_old,
    change,
    start_node,
)
from tests.ssh.parts.subject import end_services
from tests.ssh.reboots import through_boots
from tests.ssh.sandbox import Sandbox, pyinfra, succeed
from tests.ssh.site_runs import plain
from tests.ssh.standin_amdgpu import (
    ADDRESSES,
    DEVICES,
    DRIVER,
    FIRST,
    GPUAGENT,
    SECOND,
    asked,
    faults,
    hold,
    install,
    modes,
    power_on,
    standin_amdgpu,
)
from tests.ssh.transactions import applied, ended, has_files_open, run, status, until, when
from tests.ssh.verifying import verified

pytestmark = pytest.mark.core(
    "test_driver_failure_restores_the_old_modes",
    "test_holder_that_may_not_be_ended_is_named_and_nothing_changes",
)
CASES = tables(__file__)

POD = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-a.scope"
PERSON = "/user.slice/user-1000.slice/session-3.scope"
# ---- what becomes of a change ----


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return start_node(start_sandbox, port)


def test_gpus_get_planned_modes_and_their_units_restart(node, port):
    applied(node, change(port))
    assert_new(node)
    assert f"stop {GPUAGENT}" in node.path("/run/systemctl.log").read_text()
    told = [line for line in asked(node) if not line.startswith("xcp_config")]
    assert told == [
        *(f"current_memory_partition {address} NPS4" for address in ADDRESSES),
        "unload",
        "firmware NPS4",
        "load",
        *(f"current_compute_partition {address} CPX" for address in ADDRESSES),
    ]


@pytest.mark.long
def test_query_for_mode_pairs_leaves_the_driver_unchanged(node, port):
    applied(node, change(port, ["DPX NPS1"]))
    assert node.path(f"{DRIVER}/{FIRST}/compute_partition_config/xcp_config").read_text() == "SPX\n"


def test_compute_mode_change_reloads_no_driver_and_skips_gpus_as_planned(node, port):
    applied(node, change(port, ["SPX NPS1", "CPX NPS1"]))
    assert_new(node, "SPX NPS1", "CPX NPS1")
    told = [line for line in asked(node) if not line.startswith("xcp_config")]
    assert told == [f"current_compute_partition {SECOND} CPX"]


@pytest.mark.variants(1)
@cases("fault, reason", CASES["failures"])
def test_driver_failure_restores_the_old_modes(node, port, fault, reason):
    faults(node, fault)
    if "every" in fault:
        when(node, "undo amd_partitions", ": > /run/amdgpu/faults")
    hangs = {"WRITE_SECONDS": "8", "RELOAD_SECONDS": "8"} if "hangs" in fault else {}
    patience = {**hangs, "DRIVER_SECONDS": "1"} if "lost" in fault else hangs
    result = run(node, change(port, impatient=patience))
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith(reason), result.reason
    assert_old(node)


def test_briefly_busy_driver_is_retried(node, port):
    faults(node, "current_compute_partition 1 EBUSY")
    applied(node, change(port, impatient={"BUSY_SECONDS": "10"}))
    assert_new(node)


@pytest.mark.long
def test_pending_memory_mode_request_is_carried_out_and_undone(node, port):
    faults(node, "unload 1 EBUSY")
    result = run(node, change(port))
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith("amdgpu cannot be unloaded: modprobe: FATAL: Module amdgpu: Device or ")
    assert [line for line in asked(node) if line.startswith("firmware")] == ["firmware NPS4", "firmware NPS1"]
    assert_old(node)


def test_pending_partition_request_is_reported(node, port):
    faults(node, "unload every EBUSY")
    result = run(node, change(port))
    assert result.outcome == "rolled-back", result
    waits = "amdgpu still has the request for NPS4, and carries it out when it is unloaded next"
    assert waits in result.reason
    assert_old(node)


def test_mode_pair_that_the_driver_disallows_is_refused_before_any_change(node, port):
    result = run(node, change(port, ["SPX NPS4"]))
    assert result.outcome == "refused"
    assert f"{FIRST}: its driver allows NPS1 with SPX, and not NPS4" in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert_old(node)


def test_gpus_changed_since_the_look_are_refused(node, port):
    result = run(node, change(port, was=["DPX NPS1"]))
    assert result.outcome == "refused"
    assert f"{FIRST} has SPX NPS1; when it was looked at it had DPX NPS1" in result.reason


@pytest.mark.long
def test_unrestorable_amd_gpus_are_reported_with_repair_commands(node, port):
    run(node, change(port))
    faults(node, "unload every EBUSY")
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    result = ended(node)
    assert result.outcome == "failed"
    assert "not every AMD GPU has the modes that it had: amdgpu cannot be unloaded" in result.reason
    commands = result.reason.split("By hand: ")[1]
    assert f"echo NPS1 > {DRIVER}/{FIRST}/current_memory_partition; " in commands
    assert "modprobe -r amdgpu; modprobe amdgpu; " in commands
    assert f"echo SPX > {DRIVER}/{SECOND}/current_compute_partition; " in commands


# ---- what holds a GPU ----


@pytest.mark.variants(1)
@cases(
    "group, path, holder",
    {
        "a-pod": (POD, "dri/renderD136", "by pods (pid {} (sleep 1000) of root), and the node "),
        "a-login": (PERSON, "kfd", "by pid {} (sleep 1000) of root; end what "),
    },
)
def test_holder_that_may_not_be_ended_is_named_and_nothing_changes(node, port, group, path, holder):
    pid = hold(node, group, path)
    result = run(node, change(port))
    assert result.outcome == "refused"
    assert f"the AMD GPUs are in use {holder.format(pid)}" in result.reason
    assert has_files_open(node, pid)
    assert_old(node)


def test_card_of_another_vendor_is_ignored(node, port):
    node.path(f"{DEVICES}/dri/card0").touch()
    pid = hold(node, PERSON, "dri/card0")
    applied(node, change(port, ["CPX NPS1"]))
    assert has_files_open(node, pid)


def test_look_lists_amd_gpu_units_and_node_tools(node, port):
    hold(node, POD)
    hold(node, PERSON)
    asked_of = NodeQuery(
        (), (), (), ((amd.NAME, "look_amd_partitions", BOOT_LINK, holders_source()),), "", ""
    )
    found = look(lambda script: node.run(script).stdout.splitlines(), asked_of)
    assert units_of(found, amd.NAME) == (GPUAGENT,)
    assert found.answers(amd.NAME)["modprobe"] == "yes"
    assert found.answers(amd.NAME)["python"].startswith("3.")


# ---- broken off at any step ----

CALLS = [
    f"{call} {nth} {killed}"
    for call, times in (
        ("current_memory_partition", 2),
        ("unload", 1),
        ("load", 1),
        ("current_compute_partition", 2),
    )
    for nth in range(1, times + 1)
    for killed in ("killed-before", "killed-after")
]


@pytest.mark.long
@pytest.mark.parametrize(
    "fault", shortened(CALLS, ("unload 1 killed-after", "current_compute_partition 2 killed-before"))
)
def test_worker_killed_during_a_driver_call_leaves_the_old_modes(node, port, fault):
    faults(node, fault)
    result = run(node, change(port))
    assert result.outcome == "rolled-back", result
    assert_old(node)


@pytest.mark.variants(1)
@pytest.mark.parametrize("firmware", ["keeps", "forgets"])
@pytest.mark.parametrize(
    "fault", shortened(CALLS, ("unload 1 killed-after", "current_compute_partition 1 killed-after"))
)
def test_power_cut_during_a_driver_call_is_undone_at_boot(node, port, fault, firmware):
    node.path(f"/run/amdgpu/{firmware}").touch()
    faults(node, fault.replace("killed", "power"))
    node.run(start_script(change(port)))
    until(node, "[ -e /run/off ]")
    end_services(node)
    power_on(node)
    result = through_boots(node)
    assert result.outcome == "rolled-back", result
    SUBJECT.after_boot(node)
    assert_old(node)


# ---- at a boot ----


def boot_worker(node: Sandbox, transaction: Transaction) -> subprocess.CompletedProcess[str]:
    """Run what our unit runs, for the plan of a transaction."""
    node.path("/run/part").mkdir(exist_ok=True)
    part = transaction.parts[1]
    node.path("/run/part/worker.py").write_text(part.data["worker.py"])
    document = {"amd_partitions": json.loads(part.data["planned.json"])}
    node.path("/run/plan.json").write_text(json.dumps(document))
    return node.run("python3 -BEs /run/part/worker.py boot /run/plan.json")


@pytest.mark.variants(1)
@pytest.mark.parametrize("firmware", ["keeps", "forgets"])
def test_boot_unit_restores_the_planned_modes(node, port, firmware):
    transaction = change(port)
    run(node, transaction)
    node.path(f"/run/amdgpu/{firmware}").touch()
    node.run(f"systemctl stop {GPUAGENT}")
    power_on(node)
    assert modes(node) != as_said(IS)
    done = boot_worker(node, transaction)
    assert (done.returncode, done.stderr) == (0, "")
    assert modes(node) == as_said(IS)
    before = len(asked(node))
    assert boot_worker(node, transaction).returncode == 0
    assert len(asked(node)) == before


def test_boot_unit_stops_no_process(node, port):
    done = boot_worker(node, change(port))
    assert done.returncode == 1
    assert "the AMD GPUs are in use by pid " in done.stderr
    assert "a boot stops nothing" in done.stderr
    assert active(node)
    assert modes(node) == as_said(WAS)


# ---- from the profile ----

PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "amd_partitions": {"gpus": [{"compute": "CPX", "memory": "NPS4"}], "naming": "mixed"},
}


@pytest.fixture
def site(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node that pyinfra reaches, with two MI300X."""
    facts = {"class": "0x120000", "vendor": "0x1002", "device": "0x74a1"}
    pci = {
        f"/sys/bus/pci/devices/{address}/{name}": f"{text}\n"
        for number, address in enumerate(ADDRESSES)
        for name, text in {**facts, "numa_node": str(number)}.items()
    }
    sandbox = start_sandbox({**kubeadm_files(port), **pci, **standin_amdgpu()})
    install(sandbox)
    start_kubelet(sandbox, port)
    sandbox.log_in_with("PATH=/usr/local/bin:$PATH")
    return sandbox


def data(node: Sandbox, **profile: object) -> dict[str, dict[str, object]]:
    return {"node": {**node.data(), **KUBELET_WAIT, "numaforge_profile": {**PROFILE, **profile}}}


def broken(node: Sandbox, folder: Path) -> tuple[str, ...]:
    """Return the tests of the suite about partitions that fail, each with its first line."""
    chosen = "test_amd_partitions or test_host"
    found = verified(node, folder, "--roles=topology,amd_partitions", "-k", chosen)
    return tuple(str(result) for result in suite.failures(found))


def test_profile_is_applied_to_the_gpus_and_second_run_changes_nothing(site, tmp_path):
    deploy = "deploys/amd_partitions.py"
    dry = pyinfra(tmp_path, data(site), "--dry", deploy)
    assert re.search(rf"{FIRST} +SPX NPS1 -> CPX NPS4", plain(dry.stdout)), dry.stdout
    assert "amdgpu is reloaded: every AMD GPU of the machine is gone meanwhile" in plain(dry.stdout)
    assert asked(site) == []
    succeed(tmp_path, data(site), "-y", deploy)
    assert modes(site) == as_said(IS)
    plan = json.loads(site.path("/etc/numaforge/plan.json").read_text())
    assert [gpu["compute"] for gpu in plan["amd_partitions"]["gpus"]] == ["CPX", "CPX"]
    assert str(site.path(BOOT_LINK).readlink()) == AMD_UNIT_PATH
    told = len(asked(site))
    again = pyinfra(tmp_path, data(site), "-y", "-v", deploy)
    assert "noop: the node is already as planned" in plain(again.stdout), again.stdout
    assert len(asked(site)) == told
    assert broken(site, tmp_path) == ()
    # another mode behind its back is seen, and our unit's own program puts it right at a boot
    site.run(f"systemctl stop {GPUAGENT}; printf QPX | tee {DRIVER}/{SECOND}/current_compute_partition")
    assert len(broken(site, tmp_path)) == 1
    unit = site.path(AMD_UNIT_PATH).read_text().splitlines()
    start = next(line for line in unit if line.startswith("ExecStart=")).partition("=")[2]
    assert site.run(start).returncode == 0
    assert modes(site) == as_said(IS)
    assert broken(site, tmp_path) == ()
    # and back to what was there, by a profile that says so
    back = {"gpus": [{"compute": "SPX", "memory": "NPS1"}]}
    assert pyinfra(tmp_path, data(site, amd_partitions=back), "-y", deploy).returncode == 0
    assert modes(site) == as_said(WAS)
    succeed(tmp_path, data(site, amd_partitions={}), "-y", deploy)
    assert modes(site) == as_said(WAS)
    assert not site.path(BOOT_LINK).is_symlink()
    assert not site.path(AMD_UNIT_PATH).exists()
