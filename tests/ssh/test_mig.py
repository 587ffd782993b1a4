"""GPUs that are cut within a transaction: as planned or as they were, and what held them runs again."""

import json
from dataclasses import replace

import pytest

from numaforge.change.look import NodeQuery, look
from numaforge.change.transaction import TRANSACTIONS, Transaction, revert_script, start_script
from numaforge.node.program import holders_source
from numaforge.node.worker_part import units_of
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.part import BOOT_LINK
from tests.fixtures.shortened import shortened
from tests.fixtures.tables import cases, tables
from tests.ssh.conftest import StartSandbox
from tests.ssh.parts.mig import (
    AMPERES,
    CUT,
    FIRST,
    GUEST,
    GUEST_IS,
    GUEST_WAS,
    HOPPERS,
    IN_A_GUEST,
    IS,
    NEW,
    OLD,
    PERSON,
    POD,
    SECOND,
    SMALL,
    WAS,
    Cuts,
    active,
    assert_new,
    assert_old,
    change,
    guest_change,
    layout,
    layout_of,
    seen,
    start_node,
    uuid,
    wanted,
)
from tests.ssh.parts.subject import end_services
from tests.ssh.reboots import carried_out, through_boots
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import boot
from tests.ssh.standin_gpus import DEVICES, PERSISTENCED, STATE, describe, hold
from tests.ssh.standin_systemd import notifying
from tests.ssh.transactions import applied, ended, has_files_open, run, status, until, when

pytestmark = pytest.mark.core(
    "test_unchanged_instance_is_not_touched",
    "test_failed_step_restores_the_old_state",
    "test_unit_that_opens_gpu_after_the_look_voids_the_change",
    "test_holder_that_may_not_be_ended_is_named_and_nothing_changes",
    "test_user_process_started_during_the_change_is_not_killed",
    "test_only_the_changed_gpu_is_reset",
    "test_linked_gpus_are_not_reset_while_any_is_in_use",
    "test_boot_unit_restores_the_plan",
)
CASES = tables(__file__)


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int, request: pytest.FixtureRequest) -> Sandbox:
    """The node with its two Hoppers, or the GPUs asked for."""
    return start_node(start_sandbox, port, getattr(request, "param", HOPPERS))


# ---- what becomes of a change ----


def test_unchanged_instance_is_not_touched(node, port):
    describe(
        node, HOPPERS.replace(CUT[0], "fail nvmlGpuInstanceDestroy 2 NVML_ERROR_UNKNOWN\n  " + CUT[0], 1)
    )
    applied(node, change(port))  # only one instance is destroyed
    assert_new(node)


def test_instance_change_alone_stops_no_unit(node, port):
    to = {FIRST: ("enabled", NEW)}
    applied(node, change(port, {FIRST: WAS[FIRST]}, to))
    assert PERSISTENCED not in node.path("/run/systemctl.log").read_text()


@pytest.mark.variants(1)
@cases("call, code, reason", CASES["failures"])
def test_failed_step_restores_the_old_state(node, port, call, code, reason):
    describe(node, HOPPERS.replace("mig enabled", f"mig enabled\n  fail {call} {code}", 1))
    result = run(node, change(port))
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith(f"{FIRST}: ")
    assert reason in result.reason
    assert_old(node)


@pytest.mark.long
def test_unrestorable_gpus_are_reported_with_repair_commands(node, port):
    run(node, change(port))
    broken = "fail nvmlDeviceCreateGpuInstanceWithPlacement every NVML_ERROR_UNKNOWN"
    describe(node, HOPPERS.replace("mig enabled", f"mig enabled\n  {broken}", 1))
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    result = ended(node)
    assert result.outcome == "failed"
    assert f"not every GPU is cut as it was: {FIRST}: the GPU instance " in result.reason
    commands = result.reason.split("By hand: ")[1]
    assert f"nvidia-smi mig -i {FIRST} -cgi 9:0,19:6 -C; " in commands
    assert SECOND not in commands
    describe(node, HOPPERS)
    by_hand = node.run(f"set -e; {commands}")
    assert by_hand.returncode == 0, by_hand.stderr
    assert_old(node)


# ---- what holds a GPU ----


@pytest.mark.long
def test_pod_container_gets_sigterm_then_sigkill(node, port):
    polite, deaf = hold(node, 1, POD), hold(node, 1, POD, 'trap "" TERM;')
    applied(node, replace(change(port), allowed=("1",)))
    assert not has_files_open(node, polite)
    assert not has_files_open(node, deaf)


def test_undo_ends_no_later_pod(node, port):
    applied(node, replace(change(port), allowed=("1",)))
    left, later = hold(node, 1, POD), hold(node, 1, POD.replace("pod1", "pod2"))
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    until(node, f"grep -qs '^parked ' {TRANSACTIONS}/T1/state")
    assert f"process {later} (sleep)" in status(node).parked
    assert has_files_open(node, left)
    node.run(f"kill -KILL {later}")
    assert ended(node).outcome == "rolled-back"
    assert not has_files_open(node, left)
    assert_old(node)


HOLDER = notifying(f"exec 3< {DEVICES}/nvidia1")


def service(node: Sandbox, unit: str) -> str:
    """Start a service that holds the second GPU; return its unit."""
    node.path(f"/run/services/{unit}").write_text(HOLDER)
    node.run(f"systemctl start {unit}; : > /run/systemctl.log")
    return unit


def test_unit_that_opens_gpu_after_the_look_voids_the_change(node, port):
    unit = service(node, "trainer.service")
    result = run(node, change(port))
    assert result.outcome == "void"
    assert f"{SECOND} is in use by {unit}, which held no GPU when the node was looked at" in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert active(node, unit)
    assert_old(node)


def test_unit_started_during_the_change_is_not_stopped(node, port):
    node.path("/run/services/trainer.service").write_text(HOLDER)
    when(node, "apply mig", "systemctl start trainer.service")
    result = run(node, change(port))
    assert result.outcome == "rolled-back"
    assert f"{SECOND} is in use by trainer.service, which held no GPU" in result.reason
    assert active(node, "trainer.service")
    assert_old(node)


def test_unit_named_in_the_profile_is_restarted(node, port):
    unit = service(node, "trainer.service")
    first, _, last = change(port).parts
    cut = mig.part(wanted(IS), seen(WAS), relinks=True, holders=(PERSISTENCED,), may_stop=(unit,))
    applied(node, Transaction("T1", (first, cut, last)))
    assert f"stop {PERSISTENCED} {unit}" in node.path("/run/systemctl.log").read_text()
    assert active(node, unit)


@cases(
    "unit, made",
    {
        "without-a-name": ("run-u12.service", ""),
        "with-one": ("job.service", "/run/systemd/transient/job.service"),
    },
)
def test_systemd_run_unit_counts_as_a_job_and_is_never_stopped(node, port, unit, made):
    pid = hold(node, 1, f"/system.slice/{unit}")
    node.run(f"mkdir -p /run/systemd/transient; : > {made}" if made else ":")
    first, _, last = change(port).parts
    cut = mig.part(wanted(IS), seen(WAS), relinks=True, holders=(PERSISTENCED, unit), may_stop=(unit,))
    result = run(node, Transaction("T1", (first, cut, last)))
    assert result.outcome == "refused"
    assert f"{SECOND} is in use by pid {pid} " in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert has_files_open(node, pid)


def test_look_lists_units_that_hold_a_gpu(node, port):
    hold(node, 1, POD)
    hold(node, 1, PERSON)
    for group in NESTED:
        hold(node, 1, group)
    service(node, "trainer.service")
    asked = NodeQuery((), (), (), ((mig.NAME, "look_mig", BOOT_LINK, holders_source()),), "", "")
    found = look(lambda script: node.run(script).stdout.splitlines(), asked)
    assert units_of(found, mig.NAME) == (PERSISTENCED, "trainer.service")


NESTED = (
    f"/lxc.payload.alice/system.slice/{PERSISTENCED}",
    f"/system.slice/docker-1f.scope/system.slice/{PERSISTENCED}",
    f"/user.slice/user-1000.slice/user@1000.service/app.slice/{PERSISTENCED}",
    f"/system.slice/docker-1f.scope/kubelet.slice{POD}",
)
"""Control groups that end like those of a unit and a pod of the host, which may be stopped."""


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("group", "holder"),
    [
        pytest.param(POD, "by pods (pid {} (sleep 1000) of root), and the node was ", id="a-pod-undrained"),
        *(
            pytest.param(group, "by pid {} (sleep 1000) of root; end what ", id=rule, marks=marks)
            for rule, group, marks in (
                ("a-login", PERSON, []),
                ("a-login-service", "/system.slice/ssh.service", []),
                ("no-group", "/", []),
                ("a-unit-in-a-container", NESTED[0], []),
                ("a-unit-in-docker", NESTED[1], [pytest.mark.long]),
                ("a-unit-of-a-user", NESTED[2], [pytest.mark.long]),
                ("a-pod-of-kind", NESTED[3], [pytest.mark.long]),
            )
        ),
    ],
)
def test_holder_that_may_not_be_ended_is_named_and_nothing_changes(node, port, group, holder):
    pid = hold(node, 1, group)
    result = run(node, change(port))
    assert result.outcome == "refused"
    assert f"{SECOND} is in use {holder.format(pid)}" in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert has_files_open(node, pid)
    assert_old(node)


def test_user_process_started_during_the_change_is_not_killed(node, port):
    when(
        node,
        "apply mig",
        f"setsid sh -c 'exec 3< {DEVICES}/nvidia1; exec sleep 1000' > /dev/null 2>&1 8>&- &\n"
        f"echo '0::{PERSON}' > /run/cgroups/$!; mount --bind /run/cgroups/$! /proc/$!/cgroup\n"
        f"until [ /proc/$!/fd/3 -ef {DEVICES}/nvidia1 ]; do sleep 0.01; done",
    )
    result = run(node, change(port))
    assert result.outcome == "rolled-back"
    assert f"{SECOND} is in use by pid " in result.reason
    assert_old(node)


def test_process_in_an_unchanged_instance_is_left_alone(node, port):
    pid = hold(node, 0, PERSON)
    stays = f"process {pid} compute 1024 1 0"
    describe(node, HOPPERS.replace("mig enabled", f"mig enabled\n  {stays}", 1))
    applied(node, change(port, {FIRST: WAS[FIRST]}, {FIRST: IS[FIRST]}))
    assert has_files_open(node, pid)


@pytest.mark.long
def test_unit_that_fails_to_restart_rolls_everything_back(node, port):
    when(node, "apply mig", f": > /run/broken/{PERSISTENCED}")
    when(node, "undo mig", f"rm /run/broken/{PERSISTENCED}")
    result = run(node, change(port))
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(f"{PERSISTENCED}, which held a GPU, is not active again after ")
    assert_old(node)


# ---- what describes GPUs to containers ----

CDI_FILE, CDI_UNIT = "/etc/cdi/nvidia.yaml", "nvidia-cdi-refresh.service"
CTK = f"""#!/bin/sh
echo "$*" >> /run/nvidia-ctk.log
if [ -e /run/refuse-cdi ]; then echo 'failed to   generate CDI spec' >&2; exit 1; fi
cp {STATE} "${{3#--output=}}"
"""


@pytest.fixture
def containers(node: Sandbox) -> Sandbox:
    """The node with nvidia-ctk and a CDI specification."""
    node.path("/usr/local/bin/nvidia-ctk").write_text(CTK)
    node.run(f"chmod 755 /usr/local/bin/nvidia-ctk; mkdir -p /etc/cdi; echo old > {CDI_FILE}")
    return node


def test_existing_cdi_specification_is_rewritten(containers, port):
    applied(containers, change(port))
    assert containers.path("/run/nvidia-ctk.log").read_text() == f"cdi generate --output={CDI_FILE}\n"
    assert containers.path(CDI_FILE).read_text() == containers.path(STATE).read_text()  # after the change


def test_node_without_a_cdi_specification_gets_none(containers, port):
    containers.path(CDI_FILE).unlink()
    applied(containers, change(port))
    assert not containers.path("/run/nvidia-ctk.log").exists()


@pytest.mark.long
def test_undo_restores_the_cdi_specification(containers, port):
    assert run(containers, change(port, comes_up=False)).outcome == "rolled-back"
    assert containers.path(CDI_FILE).read_text() == containers.path(STATE).read_text()
    assert_old(containers)


@pytest.mark.long
def test_unwritable_cdi_spec_is_reported_and_change_kept(containers, port):
    containers.path("/run/refuse-cdi").touch()
    result = run(containers, change(port))
    assert result.outcome == "applied"
    said = f"{CDI_FILE} still describes the GPUs to containers as they were: failed to generate CDI spec"
    assert result.reason == f"the kubelet is healthy with the new configuration; {said}"
    assert_new(containers)


def test_unit_that_writes_the_cdi_specification_is_restarted_instead(containers, port):
    containers.path(f"/run/services/{CDI_UNIT}").write_text(notifying(f"cp {STATE} {CDI_FILE}"))
    applied(containers, change(port))
    assert f"restart --no-block {CDI_UNIT}\n" in containers.path("/run/systemctl.log").read_text()
    assert containers.path(CDI_FILE).read_text() == containers.path(STATE).read_text()
    assert not containers.path("/run/nvidia-ctk.log").exists()


@pytest.mark.long
def test_failed_cdi_unit_is_reported_and_change_kept(containers, port):
    for folder in ("services", "broken"):
        containers.path(f"/run/{folder}/{CDI_UNIT}").touch()
    result = run(containers, change(port))
    assert result.outcome == "applied"
    assert result.reason.endswith(
        f"; {CDI_UNIT} has failed: the CDI specification still describes the GPUs to containers as they were"
    )
    assert_new(containers)


# ---- what is not as it was planned on ----


def test_gpus_repartitioned_since_the_look_are_not_touched(node, port):
    was: Cuts = {FIRST: ("enabled", OLD[:1]), SECOND: ("disabled", ())}
    result = run(node, change(port, was))
    assert result.outcome == "refused"
    assert f"{FIRST} has MIG mode enabled, 9@0 (3), 19@6 (1); when it was looked at it had " in result.reason
    assert_old(node)


def test_vanished_gpu_is_refused_and_nothing_changes(node, port):
    describe(node, HOPPERS.partition(f"gpu {SECOND}")[0])
    result = run(node, change(port))
    assert result.outcome == "refused"
    assert f"{SECOND}: the GPU {uuid(SECOND)} is not there any more" in result.reason
    assert active(node)


# ---- a reset ----

AMPERE_WAS: Cuts = {FIRST: ("disabled", ())}
AMPERE_IS: Cuts = {FIRST: ("enabled", SMALL)}


@pytest.mark.parametrize("node", [AMPERES], indirect=True)
def test_only_the_changed_gpu_is_reset(node, port):
    applied(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert node.path("/run/nvidia-smi.log").read_text() == f"-r -i {FIRST}\n"
    assert_new(node, {**AMPERE_IS, SECOND: ("disabled", ())})


@pytest.mark.parametrize("node", [AMPERES], indirect=True)
def test_gpu_that_cannot_reset_keeps_its_mode_and_remedy_is_named(node, port):
    node.path("/run/refuse-reset").touch()
    result = run(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(
        f"{FIRST}: the MIG mode needs a reset: Resetting GPU {FIRST} is not supported.. Where a GPU cannot"
    )
    assert_old(node, {FIRST: ("disabled", ()), SECOND: ("disabled", ())})


LINKED = AMPERES.replace("mig disabled", "mig disabled\n  nvlinks 12 of 12")


@pytest.mark.parametrize("node", [LINKED], indirect=True)
def test_idle_linked_gpus_are_reset_together(node, port):
    node.path("/run/reset-together").write_text("2")
    applied(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert node.path("/run/nvidia-smi.log").read_text() == f"-r -i {FIRST}\n-r -i {FIRST},{SECOND}\n"
    assert_new(node, {**AMPERE_IS, SECOND: ("disabled", ())})


def persistence(node: Sandbox) -> list[str]:
    """Return the persistence mode of each GPU."""
    said = node.path(STATE).read_text()
    return [line.split()[1] for line in said.splitlines() if line.split()[0] == "persistence"]


PERSISTENT = LINKED.replace("mig disabled", "mig disabled\n  persistence enabled")


@pytest.mark.variants(1)
@pytest.mark.parametrize("together", ["1", "2"], ids=["alone", "with-the-GPU-that-NVLink-connects"])
@pytest.mark.parametrize("node", [PERSISTENT], indirect=True)
def test_persistence_mode_without_the_daemon_is_off_only_during_the_reset(node, port, together):
    node.path("/run/reset-together").write_text(together)
    applied(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert persistence(node) == ["enabled", "enabled"]
    assert_new(node, {**AMPERE_IS, SECOND: ("disabled", ())})


@pytest.mark.parametrize("node", [PERSISTENT], indirect=True)
def test_persistence_mode_is_restored_when_a_worker_dies_before_the_reset(node, port):
    fault = "fail nvmlDeviceSetPersistenceMode 1 killed-after"
    describe(node, PERSISTENT.replace("mig disabled", f"mig disabled\n  {fault}", 1))
    result = run(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert result.outcome == "rolled-back", result
    assert persistence(node) == ["enabled", "enabled"]


@pytest.mark.parametrize("node", [LINKED], indirect=True)
def test_linked_gpus_are_not_reset_while_any_is_in_use(node, port):
    node.path("/run/reset-together").write_text("2")
    pid = hold(node, 1, PERSON)
    second = LINKED.index(f"gpu {SECOND}")
    busy = LINKED[second:].replace("mig disabled", f"mig disabled\n  process {pid} compute 1024")
    describe(node, LINKED[:second] + busy)
    result = run(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert result.outcome == "rolled-back"
    assert f"They are reset together with {SECOND}, which is in use by pid {pid} " in result.reason
    assert has_files_open(node, pid)


# ---- killed, powered off, booted ----

CALLS = [
    f"{call} {nth} {killed}"
    for call, times in (
        ("nvmlComputeInstanceDestroy", 1),
        ("nvmlGpuInstanceDestroy", 1),
        ("nvmlDeviceCreateGpuInstanceWithPlacement", 1),
        ("nvmlGpuInstanceCreateComputeInstance", 2),
    )
    for nth in range(1, times + 1)
    for killed in ("killed-before", "killed-after")
]


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "fault",
    shortened(
        CALLS,
        (
            "nvmlGpuInstanceDestroy 1 killed-after",
            "nvmlDeviceCreateGpuInstanceWithPlacement 1 killed-after",
            "nvmlGpuInstanceCreateComputeInstance 2 killed-before",
        ),
    ),
)
def test_worker_killed_during_a_gpu_change_leaves_the_old_gpus(node, port, fault):
    describe(node, HOPPERS.replace("mig enabled", f"mig enabled\n  fail {fault}", 1))
    assert run(node, change(port)).outcome == "rolled-back"
    assert_old(node)


# ---- a mode that only a boot brings ----

in_a_guest = pytest.mark.parametrize("node", [GUEST], indirect=True)


@pytest.mark.long
@in_a_guest
def test_boot_without_the_mig_mode_is_reported_and_not_repeated(node, port):
    node.run(start_script(guest_change(port)))
    until(node, "[ -e /run/stopping ]")
    modes = node.path(STATE).read_text().replace("mig enabling", "mig disabled")
    node.path(STATE).write_text(modes)
    result = through_boots(node)
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(f"{FIRST}: wanted MIG mode enabled, 9@4 (3), 19@0 (1), and there is ")
    assert_old(node, GUEST_WAS)


@pytest.mark.long
@in_a_guest
def test_unit_that_no_boot_starts_is_restarted(node, port):
    node.run(start_script(guest_change(port)))
    until(node, "[ -e /run/stopping ]")
    end_services(node)
    assert through_boots(node).outcome == "applied"
    assert_new(node, GUEST_IS)


@pytest.mark.long
@in_a_guest
@pytest.mark.parametrize("killed", ["killed-before", "killed-after"])
@pytest.mark.parametrize("call", ["nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode"])
def test_worker_killed_while_setting_a_mode_leaves_the_old_gpus(node, port, call, killed):
    mode = f"mig enabled\n  fail {call} 1 {killed}"
    describe(node, GUEST.replace("mig enabled", mode))
    assert carried_out(node, guest_change(port)).outcome == "rolled-back"
    IN_A_GUEST.after_boot(node)
    assert_old(node, GUEST_WAS)


# ---- at a boot ----


def test_boot_unit_restores_the_plan(node, port):
    transaction = change(port)
    run(node, transaction)
    node.path("/etc/numaforge").mkdir(exist_ok=True)
    document = {"mig": json.loads(transaction.parts[1].data["planned.json"])}
    node.path("/etc/numaforge/plan.json").write_text(json.dumps(document))
    boot(node)
    worker = f"python3 -BEs {transaction.folder}/mig/worker.py boot /etc/numaforge/plan.json"
    done = node.run(worker)
    assert (done.returncode, done.stderr) == (0, "")
    assert layout(node) == layout_of(IS)
    again = node.run(worker)
    assert (again.returncode, layout(node)) == (0, layout_of(IS))


def test_boot_unit_destroys_nothing_and_applies_the_plan_to_other_gpus(node, port):
    transaction = change(port)
    node.path("/run/part").mkdir()
    for name, text in transaction.parts[1].data.items():
        node.path(f"/run/part/{name}").write_text(text)
    document = {"mig": json.loads(transaction.parts[1].data["planned.json"])}
    node.path("/run/plan.json").write_text(json.dumps(document))
    node.run("python3 -BEs /run/part/worker.py show")
    done = node.run("python3 -BEs /run/part/worker.py boot /run/plan.json")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{FIRST} has MIG mode enabled, 9@0 (3), 19@6 (1), and the plan ")
    assert layout(node) == layout_of({FIRST: WAS[FIRST], SECOND: IS[SECOND]})
