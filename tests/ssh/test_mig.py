"""GPUs that are cut within a transaction: as planned or as they were, and what held them runs again."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from numaforge.change.look import NodeQuery, look
from numaforge.change.transaction import TRANSACTIONS, Result, Transaction, revert_script, start_script
from numaforge.machine.topology.model import ComputeInstance, Gpu, GpuInstance
from numaforge.node.program import holders_source
from numaforge.roles.files import part as files
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kubelet import part as kubelet
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.files import MIG_UNIT_PATH
from numaforge.roles.mig.instance import MigGpu, MigInstance
from numaforge.roles.mig.mode import part as mig_mode
from numaforge.roles.mig.part import BOOT_LINK
from numaforge.roles.reboot import part as reboot
from tests.fakes.nvml.gpus import gpu_text
from tests.fixtures.shortened import shortened
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.reboots import CUT_POWER, through_boots
from tests.ssh.sandbox import Sandbox, free_port
from tests.ssh.standin_bootloader import boot, boots, debian
from tests.ssh.standin_bootloader import install as install_bootloader
from tests.ssh.standin_gpus import DEVICES, PERSISTENCED, STATE, describe, hold, install, standin_gpus
from tests.ssh.standin_systemd import STATE as KUBELET_STATE
from tests.ssh.standin_systemd import notifying, standin_systemd
from tests.ssh.transactions import (
    END_UNIT,
    GO_DOWN,
    KILL,
    applied,
    ended,
    has_files_open,
    leftovers,
    process,
    run,
    status,
    until,
    when,
)

FIRST, SECOND = "0000:1b:00.0", "0000:43:00.0"
POD = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-a.scope"
PERSON = "/user.slice/user-1000.slice/session-3.scope"

OLD = (MigInstance("3g.40gb", 9, 0, 4, (3,)), MigInstance("1g.10gb", 19, 6, 1, (1,)))
NEW = (MigInstance("3g.40gb", 9, 0, 4, (3,)), MigInstance("2g.20gb", 14, 4, 2, (1, 1)))
CUT = "instance 9 0", "compute 0 2 0 0", "instance 19 6", "compute 0 0 0 1"
HOPPERS = gpu_text("h100-80gb", FIRST, *CUT, number=1, mig="enabled") + gpu_text(
    "h100-80gb", SECOND, number=2
)
AMPERES = gpu_text("a100-40gb", FIRST, number=1) + gpu_text("a100-40gb", SECOND, number=2)

Cuts = dict[str, tuple[str, tuple[MigInstance, ...]]]
WAS: Cuts = {FIRST: ("enabled", OLD), SECOND: ("disabled", ())}
IS: Cuts = {FIRST: ("enabled", NEW), SECOND: ("enabled", NEW)}


def uuid(address: str) -> str:
    return f"GPU-{(FIRST, SECOND).index(address) + 1:08d}-0000-4000-8000-000000000000"


def wanted(cuts: Cuts) -> list[MigGpu]:
    return [MigGpu(address, uuid(address), mode, cut) for address, (mode, cut) in cuts.items()]


def seen(cuts: Cuts) -> list[Gpu]:
    def instance(number: int, each: MigInstance) -> GpuInstance:
        compute = tuple(ComputeInstance(at, slices) for at, slices in enumerate(each.compute_instances))
        return GpuInstance(number, each.profile_id, each.start, each.size, compute)

    return [
        Gpu(
            address,
            "10de",
            "2330",
            0,
            uuid=uuid(address),
            mig_mode=mode,
            mig_pending=mode,
            gpu_instances=tuple(instance(*each) for each in enumerate(cut)),
        )
        for address, (mode, cut) in cuts.items()
    ]


def change(port: int, was: Cuts = WAS, to: Cuts = IS, *, comes_up: bool = True) -> Transaction:
    return Transaction(
        "T1",
        (
            files.part([]),
            mig.part(wanted(to), seen(was), relinks=True, holders=(PERSISTENCED,)),
            kubelet.part(
                "kubelet.service",
                health=("127.0.0.1", port if comes_up else free_port()),
                start_seconds=4,
                stable_seconds=1,
            ),
        ),
    )


def found(node: Sandbox) -> Cuts:
    """Return how the GPUs are cut, from the state of the fake library alone."""
    cuts: dict[str, tuple[str, list[tuple[int, int, list[int]]]]] = {}
    for line in node.path(STATE).read_text().splitlines():
        key, *values = line.split()
        if key == "gpu":
            address = values[0]
            cuts[address] = ("", [])
        elif key == "mig":
            cuts[address] = (values[0], cuts[address][1])
        elif key == "instance":
            cuts[address][1].append((int(values[0]), int(values[1]), []))
        elif key == "compute":
            cuts[address][1][-1][2].append(int(values[1]) + 1)
    return {address: (mode, sorted(cut)) for address, (mode, cut) in cuts.items()}  # type: ignore[misc]


def as_found(cuts: Cuts) -> Cuts:
    return {
        address: (mode, sorted((each.profile_id, each.start, list(each.compute_instances)) for each in cut))
        for address, (mode, cut) in cuts.items()
    }  # type: ignore[misc]


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int, request: pytest.FixtureRequest) -> Sandbox:
    """A node with two Hoppers, or the GPUs asked for, a running kubelet and nvidia-persistenced."""
    sandbox = start_sandbox({**machine(), **standin_systemd(port), **debian(), **standin_gpus()})
    install_bootloader(sandbox)
    install(sandbox, getattr(request, "param", HOPPERS))
    sandbox.run(f"systemctl start kubelet.service; until [ -e {KUBELET_STATE} ]; do sleep 0.05; done")
    sandbox.run(": > /run/systemctl.log; mkdir -p /run/when /run/systemd/system")
    return sandbox


def active(node: Sandbox, unit: str = PERSISTENCED) -> bool:
    return node.path(f"/run/active/{unit}").exists()


def assert_old(node: Sandbox, was: Cuts = WAS) -> None:
    assert found(node) == as_found(was)
    assert not node.path(BOOT_LINK).is_symlink()
    assert active(node)
    assert leftovers(node) == []
    assert process(node).pid


def assert_new(node: Sandbox, to: Cuts = IS) -> None:
    assert found(node) == as_found(to)
    assert str(node.path(BOOT_LINK).readlink()) == MIG_UNIT_PATH
    assert active(node)
    assert leftovers(node) == []
    assert process(node).pid


# ---- what becomes of a change ----


def test_gpus_are_cut_as_planned_and_what_held_them_runs_again(node: Sandbox, port: int) -> None:
    applied(node, change(port))
    assert_new(node)
    assert f"stop {PERSISTENCED}" in node.path("/run/systemctl.log").read_text()


def test_an_instance_that_stays_is_not_touched(node: Sandbox, port: int) -> None:
    describe(
        node, HOPPERS.replace(CUT[0], "fail nvmlGpuInstanceDestroy 2 NVML_ERROR_UNKNOWN\n  " + CUT[0], 1)
    )
    applied(node, change(port))  # only one instance is destroyed
    assert_new(node)


def test_a_unit_is_not_stopped_for_instances_alone(node: Sandbox, port: int) -> None:
    to = {FIRST: ("enabled", NEW)}
    applied(node, change(port, {FIRST: WAS[FIRST]}, to))
    assert PERSISTENCED not in node.path("/run/systemctl.log").read_text()


@pytest.mark.long
def test_a_kubelet_that_does_not_come_up_gets_the_old_gpus_back(node: Sandbox, port: int) -> None:
    assert run(node, change(port, comes_up=False)).outcome == "rolled-back"
    assert_old(node)


def test_what_was_applied_is_reverted(node: Sandbox, port: int) -> None:
    run(node, change(port))
    assert node.run(revert_script("T1", "the node is not Ready", status(node))).returncode == 0
    assert ended(node).outcome == "rolled-back"
    assert_old(node)


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("call", "code", "reason"),
    [
        pytest.param(
            "nvmlDeviceCreateGpuInstanceWithPlacement 1",
            "NVML_ERROR_INSUFFICIENT_RESOURCES",
            "the GPU instance 2g.20gb at 4 cannot be created: there is no room for it",
            id="creating",
        ),
        pytest.param(
            "nvmlGpuInstanceCreateComputeInstance 2",
            "NVML_ERROR_UNKNOWN",
            "the GPU instance 2g.20gb at 4 cannot get a compute instance of 1 slices: Unknown Error",
            id="a-compute-instance",
        ),
        pytest.param(
            "nvmlGpuInstanceDestroy 1",
            "NVML_ERROR_NO_PERMISSION",
            "cannot be destroyed: this machine may not",
            id="destroying",
        ),
    ],
)
def test_a_step_that_fails_brings_back_what_was_there(
    node: Sandbox, port: int, call: str, code: str, reason: str
) -> None:
    describe(node, HOPPERS.replace("mig enabled", f"mig enabled\n  fail {call} {code}", 1))
    result = run(node, change(port))
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith(f"{FIRST}: ")
    assert reason in result.reason
    assert_old(node)


@pytest.mark.long
def test_gpus_that_cannot_be_put_back_are_said_with_the_commands_that_do(node: Sandbox, port: int) -> None:
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
def test_a_pods_container_is_ended_and_one_that_ignores_that_is_killed(node: Sandbox, port: int) -> None:
    polite, deaf = hold(node, 1, POD), hold(node, 1, POD, 'trap "" TERM;')
    applied(node, replace(change(port), allowed=("1",)))
    assert not has_files_open(node, polite)
    assert not has_files_open(node, deaf)


def test_an_undo_ends_no_pod_that_came_later(node: Sandbox, port: int) -> None:
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


def test_a_pod_on_a_node_that_was_not_drained_is_named_and_nothing_is_changed(
    node: Sandbox, port: int
) -> None:
    pid = hold(node, 1, POD)
    result = run(node, change(port))
    assert result.outcome == "refused"
    assert f"{SECOND} is in use by pods (pid {pid} (sleep 1000) of root), and the node was " in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert has_files_open(node, pid)
    assert_old(node)


HOLDER = notifying(f"exec 3< {DEVICES}/nvidia1")


def service(node: Sandbox, unit: str) -> str:
    """Start a service that holds the second GPU; return its unit."""
    node.path(f"/run/services/{unit}").write_text(HOLDER)
    node.run(f"systemctl start {unit}; : > /run/systemctl.log")
    return unit


def test_a_unit_that_held_no_gpu_at_the_look_makes_the_change_void(node: Sandbox, port: int) -> None:
    unit = service(node, "trainer.service")
    result = run(node, change(port))
    assert result.outcome == "void"
    assert f"{SECOND} is in use by {unit}, which held no GPU when the node was looked at" in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert active(node, unit)
    assert_old(node)


def test_a_unit_that_comes_while_others_are_stopped_is_not_stopped(node: Sandbox, port: int) -> None:
    node.path("/run/services/trainer.service").write_text(HOLDER)
    when(node, "apply mig", "systemctl start trainer.service")
    result = run(node, change(port))
    assert result.outcome == "rolled-back"
    assert f"{SECOND} is in use by trainer.service, which held no GPU" in result.reason
    assert active(node, "trainer.service")
    assert_old(node)


def test_a_unit_that_the_profile_names_is_stopped_and_started_again(node: Sandbox, port: int) -> None:
    unit = service(node, "trainer.service")
    first, _, last = change(port).parts
    cut = mig.part(wanted(IS), seen(WAS), relinks=True, holders=(PERSISTENCED,), may_stop=(unit,))
    applied(node, Transaction("T1", (first, cut, last)))
    assert f"stop {PERSISTENCED} {unit}" in node.path("/run/systemctl.log").read_text()
    assert active(node, unit)


@pytest.mark.parametrize(
    ("unit", "made"),
    [
        pytest.param("run-u12.service", "", id="without-a-name"),
        pytest.param("job.service", "/run/systemd/transient/job.service", id="with-one"),
    ],
)
def test_what_systemd_run_has_started_is_a_job_and_never_stopped(
    node: Sandbox, port: int, unit: str, made: str
) -> None:
    pid = hold(node, 1, f"/system.slice/{unit}")
    node.run(f"mkdir -p /run/systemd/transient; : > {made}" if made else ":")
    first, _, last = change(port).parts
    cut = mig.part(wanted(IS), seen(WAS), relinks=True, holders=(PERSISTENCED, unit), may_stop=(unit,))
    result = run(node, Transaction("T1", (first, cut, last)))
    assert result.outcome == "refused"
    assert f"{SECOND} is in use by pid {pid} " in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert has_files_open(node, pid)


def test_the_look_tells_which_units_hold_a_gpu(node: Sandbox, port: int) -> None:
    hold(node, 1, POD)
    hold(node, 1, PERSON)
    for group in NESTED:
        hold(node, 1, group)
    service(node, "trainer.service")
    asked = NodeQuery((), (), (), ((mig.NAME, "look_mig", BOOT_LINK, holders_source()),), "", "")
    found = look(lambda script: node.run(script).stdout.splitlines(), asked)
    assert mig.held_by(found) == (PERSISTENCED, "trainer.service")


NESTED = (
    f"/lxc.payload.alice/system.slice/{PERSISTENCED}",
    f"/system.slice/docker-1f.scope/system.slice/{PERSISTENCED}",
    f"/user.slice/user-1000.slice/user@1000.service/app.slice/{PERSISTENCED}",
    f"/system.slice/docker-1f.scope/kubelet.slice{POD}",
)
"""Control groups that end like those of a unit and a pod of the host, which may be stopped."""


@pytest.mark.parametrize(
    "group",
    [
        PERSON,
        "/system.slice/ssh.service",
        "/",
        pytest.param(NESTED[0], id="a-unit-in-a-container"),
        pytest.param(NESTED[1], id="a-unit-in-docker", marks=pytest.mark.long),
        pytest.param(NESTED[2], id="a-unit-of-a-user", marks=pytest.mark.long),
        pytest.param(NESTED[3], id="a-pod-of-kind", marks=pytest.mark.long),
    ],
)
def test_a_process_of_a_person_is_named_and_nothing_is_changed(node: Sandbox, port: int, group: str) -> None:
    pid = hold(node, 1, group)
    result = run(node, change(port))
    assert result.outcome == "refused"
    assert f"{SECOND} is in use by pid {pid} (sleep 1000) of root; end what " in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert has_files_open(node, pid)
    assert_old(node)


def test_a_person_who_comes_later_is_not_ended_either(node: Sandbox, port: int) -> None:
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


def test_a_process_in_an_instance_that_stays_is_left_alone(node: Sandbox, port: int) -> None:
    pid = hold(node, 0, PERSON)
    stays = f"process {pid} compute 1024 1 0"
    describe(node, HOPPERS.replace("mig enabled", f"mig enabled\n  {stays}", 1))
    applied(node, change(port, {FIRST: WAS[FIRST]}, {FIRST: IS[FIRST]}))
    assert has_files_open(node, pid)


@pytest.mark.long
def test_a_unit_that_does_not_start_again_takes_everything_back(node: Sandbox, port: int) -> None:
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


def test_the_cdi_specification_that_is_there_is_written_again(containers: Sandbox, port: int) -> None:
    applied(containers, change(port))
    assert containers.path("/run/nvidia-ctk.log").read_text() == f"cdi generate --output={CDI_FILE}\n"
    assert containers.path(CDI_FILE).read_text() == containers.path(STATE).read_text()  # after the change


def test_a_node_without_a_cdi_specification_gets_none(containers: Sandbox, port: int) -> None:
    containers.path(CDI_FILE).unlink()
    applied(containers, change(port))
    assert not containers.path("/run/nvidia-ctk.log").exists()


@pytest.mark.long
def test_the_cdi_specification_describes_the_old_gpus_after_an_undoing(
    containers: Sandbox, port: int
) -> None:
    assert run(containers, change(port, comes_up=False)).outcome == "rolled-back"
    assert containers.path(CDI_FILE).read_text() == containers.path(STATE).read_text()
    assert_old(containers)


@pytest.mark.long
def test_a_cdi_specification_that_cannot_be_written_is_said_and_takes_nothing_back(
    containers: Sandbox, port: int
) -> None:
    containers.path("/run/refuse-cdi").touch()
    result = run(containers, change(port))
    assert result.outcome == "applied"
    said = f"{CDI_FILE} still describes the GPUs to containers as they were: failed to generate CDI spec"
    assert result.reason == f"the kubelet is healthy with the new configuration; {said}"
    assert_new(containers)


def test_the_unit_that_writes_the_cdi_specification_is_restarted_instead(
    containers: Sandbox, port: int
) -> None:
    containers.path(f"/run/services/{CDI_UNIT}").write_text(notifying(f"cp {STATE} {CDI_FILE}"))
    applied(containers, change(port))
    assert f"restart --no-block {CDI_UNIT}\n" in containers.path("/run/systemctl.log").read_text()
    assert containers.path(CDI_FILE).read_text() == containers.path(STATE).read_text()
    assert not containers.path("/run/nvidia-ctk.log").exists()


@pytest.mark.long
def test_a_unit_that_fails_to_write_the_cdi_specification_is_said_and_takes_nothing_back(
    containers: Sandbox, port: int
) -> None:
    for folder in ("services", "broken"):
        containers.path(f"/run/{folder}/{CDI_UNIT}").touch()
    result = run(containers, change(port))
    assert result.outcome == "applied"
    assert result.reason.endswith(
        f"; {CDI_UNIT} has failed: the CDI specification still describes the GPUs to containers as they were"
    )
    assert_new(containers)


# ---- what is not as it was planned on ----


def test_gpus_that_were_cut_otherwise_meanwhile_are_not_touched(node: Sandbox, port: int) -> None:
    was: Cuts = {FIRST: ("enabled", OLD[:1]), SECOND: ("disabled", ())}
    result = run(node, change(port, was))
    assert result.outcome == "refused"
    assert f"{FIRST} has MIG mode enabled, 9@0 (3), 19@6 (1); when it was looked at it had " in result.reason
    assert_old(node)


def test_a_gpu_that_has_vanished_changes_nothing(node: Sandbox, port: int) -> None:
    describe(node, HOPPERS.partition(f"gpu {SECOND}")[0])
    result = run(node, change(port))
    assert result.outcome == "refused"
    assert f"{SECOND}: the GPU {uuid(SECOND)} is not there any more" in result.reason
    assert active(node)


# ---- a reset ----

AMPERE_WAS: Cuts = {FIRST: ("disabled", ())}
SMALL = (MigInstance("3g.20gb", 9, 4, 4, (3,)),)
AMPERE_IS: Cuts = {FIRST: ("enabled", SMALL)}


@pytest.mark.parametrize("node", [AMPERES], indirect=True)
def test_only_the_gpu_that_changes_is_reset(node: Sandbox, port: int) -> None:
    applied(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert node.path("/run/nvidia-smi.log").read_text() == f"-r -i {FIRST}\n"
    assert_new(node, {**AMPERE_IS, SECOND: ("disabled", ())})


@pytest.mark.parametrize("node", [AMPERES], indirect=True)
def test_a_gpu_that_cannot_be_reset_keeps_its_mode_and_says_what_does_it(node: Sandbox, port: int) -> None:
    node.path("/run/refuse-reset").touch()
    result = run(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(
        f"{FIRST}: the MIG mode needs a reset: Resetting GPU {FIRST} is not supported.. Where a GPU cannot"
    )
    assert_old(node, {FIRST: ("disabled", ()), SECOND: ("disabled", ())})


LINKED = AMPERES.replace("mig disabled", "mig disabled\n  nvlinks 12 of 12")


@pytest.mark.parametrize("node", [LINKED], indirect=True)
def test_gpus_that_are_reset_together_are_where_all_of_them_are_idle(node: Sandbox, port: int) -> None:
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
def test_persistence_mode_without_the_daemon_is_off_for_the_reset_and_on_after_it(
    node: Sandbox, port: int, together: str
) -> None:
    node.path("/run/reset-together").write_text(together)
    applied(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert persistence(node) == ["enabled", "enabled"]
    assert_new(node, {**AMPERE_IS, SECOND: ("disabled", ())})


@pytest.mark.parametrize("node", [PERSISTENT], indirect=True)
def test_persistence_mode_comes_back_where_a_worker_is_killed_before_the_reset(
    node: Sandbox, port: int
) -> None:
    fault = "fail nvmlDeviceSetPersistenceMode 1 killed-after"
    describe(node, PERSISTENT.replace("mig disabled", f"mig disabled\n  {fault}", 1))
    result = run(node, change(port, AMPERE_WAS, AMPERE_IS))
    assert result.outcome == "rolled-back", result
    assert persistence(node) == ["enabled", "enabled"]


@pytest.mark.parametrize("node", [LINKED], indirect=True)
def test_gpus_that_are_reset_together_are_not_where_one_is_in_use(node: Sandbox, port: int) -> None:
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

EVENTS = [
    "keeping",
    "stop kubelet",
    "apply mig",
    "apply kubelet",
    "start kubelet",
    "prove mig",
    "prove kubelet",
    "prove kubelet again",
]
BACK = ["stop kubelet", "undo kubelet", "undo mig", "start kubelet", "prove mig", "prove kubelet"]
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


def assert_whole(node: Sandbox, result: Result, outcomes: Sequence[str]) -> None:
    assert result.outcome in outcomes, result
    assert_old(node)


@pytest.mark.variants(1)
@pytest.mark.parametrize("event", shortened(EVENTS, ("apply mig", "prove mig")))
def test_a_unit_that_is_killed_undoes_itself(node: Sandbox, port: int, event: str) -> None:
    when(node, event, KILL)
    assert_whole(node, run(node, change(port)), ("refused",) if event == "keeping" else ("rolled-back",))


@pytest.mark.long
@pytest.mark.parametrize("event", shortened(BACK, ("undo mig", "start kubelet")))
def test_an_undoing_that_is_killed_is_done_again(node: Sandbox, port: int, event: str) -> None:
    run(node, change(port))
    when(node, event, KILL)
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    assert_whole(node, ended(node), ("rolled-back",))


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
def test_a_worker_that_is_killed_within_a_change_of_a_gpu_leaves_the_old_gpus(
    node: Sandbox, port: int, fault: str
) -> None:
    describe(node, HOPPERS.replace("mig enabled", f"mig enabled\n  fail {fault}", 1))
    assert_whole(node, run(node, change(port)), ("rolled-back",))


@pytest.mark.variants(1)
@pytest.mark.parametrize("event", shortened(EVENTS, ("stop kubelet", "apply mig")))
def test_a_power_cut_is_undone_before_the_kubelet_starts(node: Sandbox, port: int, event: str) -> None:
    when(node, event, CUT_POWER)
    node.run(start_script(change(port)))
    until(node, "[ -e /run/off ]")
    power_off(node)
    result = through_boots(node)
    assert result.outcome == ("refused" if event == "keeping" else "rolled-back"), result
    if event != "keeping":  # which had not kept anything: our unit does that, where the plan says so
        assert_old_after_boot(node)


@pytest.mark.parametrize("event", shortened(["stop kubelet", "apply mig", "start kubelet"], ("apply mig",)))
def test_a_reboot_in_good_order_ends_with_the_old_gpus(node: Sandbox, port: int, event: str) -> None:
    when(node, event, GO_DOWN + END_UNIT)
    node.run(start_script(change(port)))
    until(node, "[ -e /run/stopping ]")
    power_off(node)
    assert through_boots(node).outcome == "rolled-back"
    assert_old_after_boot(node)


def power_off(node: Sandbox) -> None:
    """End what the sandbox's boot does not end: the services."""
    node.run("for pid in $(cat /run/active/*); do kill -KILL $pid; done; rm -f /run/active/*")


def assert_old_after_boot(node: Sandbox, was: Cuts = WAS) -> None:
    """A service that the change has stopped is its to start; the others start with the boot."""
    if not any(node.path("/var/lib/numaforge/txn/T1").glob("mig*/stopped")):
        node.run(f"systemctl start {PERSISTENCED}")
    assert_old(node, was)


# ---- with a boot in between ----


def with_boot(transaction: Transaction) -> Transaction:
    first, *others = transaction.parts
    cmdline = kernel_cmdline.part(("iommu=pt",), ("iommu=pt",), (), "grub")
    return Transaction("T1", (first, cmdline, reboot.part(), *others))


def test_gpus_are_cut_in_the_boot_that_comes_before_the_kubelet(node: Sandbox, port: int) -> None:
    node.run(start_script(with_boot(change(port))))
    result = through_boots(node)
    assert result.outcome == "applied", result
    assert boots(node) == 1
    assert_new(node)


def test_gpus_are_as_they_were_after_the_boot_that_takes_it_back(node: Sandbox, port: int) -> None:
    node.run(start_script(with_boot(change(port, comes_up=False))))
    result = through_boots(node)
    assert result.outcome == "rolled-back", result
    assert boots(node) == 2
    assert_old(node)


# ---- a mode that only a boot brings ----

GUEST_SMALL = MigInstance("1g.5gb", 19, 0, 1, (1,))
GUEST = gpu_text("a100-40gb", FIRST, "virtualization passthrough", number=1) + gpu_text(
    "a100-40gb",
    SECOND,
    "virtualization passthrough",
    "instance 9 4",
    "compute 0 2 0 0",
    number=2,
    mig="enabled",
)
GUEST_WAS: Cuts = {FIRST: ("disabled", ()), SECOND: ("enabled", SMALL)}
GUEST_IS: Cuts = {FIRST: ("enabled", (*SMALL, GUEST_SMALL)), SECOND: ("disabled", ())}
in_a_guest = pytest.mark.parametrize("node", [GUEST], indirect=True)


def guest_change(port: int, *, comes_up: bool = True) -> Transaction:
    passed_through = [
        replace(each, device="20b0", virtualization="passthrough", architecture="ampere")
        for each in seen(GUEST_WAS)
    ]
    first, _, last = change(port, GUEST_WAS, GUEST_IS, comes_up=comes_up).parts
    held = (PERSISTENCED,)
    mode = mig_mode.part(wanted(GUEST_IS), passed_through, holders=held)
    cut = mig.part(wanted(GUEST_IS), passed_through, relinks=True, holders=held)
    return Transaction("T1", (first, mode, reboot.part(), cut, last))


@in_a_guest
def test_a_gpu_that_cannot_be_reset_gets_its_mode_by_one_boot_and_then_its_instances(
    node: Sandbox, port: int
) -> None:
    node.run(start_script(guest_change(port)))
    result = through_boots(node)
    assert result.outcome == "applied", result
    assert boots(node) == 1
    assert_new(node, GUEST_IS)
    assert not node.path("/run/nvidia-smi.log").exists()  # nothing was reset


@pytest.mark.long
@in_a_guest
def test_a_second_boot_takes_the_mode_back_and_the_old_instances_come_after_it(
    node: Sandbox, port: int
) -> None:
    node.run(start_script(guest_change(port, comes_up=False)))
    result = through_boots(node)
    assert result.outcome == "rolled-back", result
    assert boots(node) == 2
    assert_old(node, GUEST_WAS)
    assert not node.path("/run/nvidia-smi.log").exists()


@pytest.mark.long
@in_a_guest
def test_what_a_guest_has_got_is_reverted_with_a_second_boot(node: Sandbox, port: int) -> None:
    node.run(start_script(guest_change(port)))
    assert through_boots(node).outcome == "applied"
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    until(node, "[ -e /run/stopping ]")
    assert through_boots(node).outcome == "rolled-back"
    assert boots(node) == 2
    assert_old(node, GUEST_WAS)


@pytest.mark.long
@in_a_guest
def test_a_guest_that_does_not_reboot_keeps_its_modes_and_gets_its_instances_back(
    node: Sandbox, port: int
) -> None:
    node.path("/run/refuse-reboot").touch()
    node.run(start_script(guest_change(port)))
    result = through_boots(node)
    assert (result.outcome, result.reason.split(";")[0]) == ("rolled-back", "systemctl reboot failed")
    assert boots(node) == 0
    assert_old(node, GUEST_WAS)


@pytest.mark.long
@in_a_guest
def test_a_boot_that_does_not_bring_the_mode_is_said_and_not_repeated(node: Sandbox, port: int) -> None:
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
def test_a_unit_that_no_boot_starts_runs_again_as_before(node: Sandbox, port: int) -> None:
    node.run(start_script(guest_change(port)))
    until(node, "[ -e /run/stopping ]")
    power_off(node)
    assert through_boots(node).outcome == "applied"
    assert_new(node, GUEST_IS)


GUEST_EVENTS = [
    "keeping",
    "stop kubelet",
    "apply mig_mode",
    "apply reboot",
    "reboot",
    "apply mig",
    "apply kubelet",
    "booted",
    "prove mig_mode",
    "prove mig",
    "prove kubelet",
]
GUEST_BACK = [
    "stop kubelet",
    "undo mig",
    "undo reboot",
    "undo mig_mode",
    "start reboot",
    "reboot",
    "start kubelet",
    "prove mig_mode",
    "prove kubelet",
]


@pytest.mark.long
@in_a_guest
@pytest.mark.parametrize("event", shortened(GUEST_EVENTS, ("apply mig_mode", "reboot", "prove mig")))
def test_a_power_cut_in_a_guest_leaves_the_old_gpus_or_the_new(node: Sandbox, port: int, event: str) -> None:
    when(node, event, CUT_POWER)
    node.run(start_script(guest_change(port)))
    until(node, "[ -e /run/stopping ] || [ -e /run/off ]")
    power_off(node)
    result = through_boots(node)
    assert not node.path(f"/run/when/{event}").exists()
    if result.outcome == "applied":
        assert event == "reboot"  # the boot that was asked for has come all the same
        assert_new(node, GUEST_IS)
    else:
        assert result.outcome == ("refused" if event == "keeping" else "rolled-back"), result
    if result.outcome == "rolled-back":  # for `keeping` see the power cuts above
        assert_old_after_boot(node, GUEST_WAS)


@pytest.mark.long
@in_a_guest
@pytest.mark.parametrize("event", shortened(GUEST_BACK, ("undo mig_mode", "reboot")))
def test_a_power_cut_on_the_way_back_in_a_guest_leaves_the_old_gpus(
    node: Sandbox, port: int, event: str
) -> None:
    node.run(start_script(guest_change(port)))
    assert through_boots(node).outcome == "applied"
    when(node, event, CUT_POWER)
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    until(node, "[ -e /run/stopping ] || [ -e /run/off ]")
    result = through_boots(node)
    assert not node.path(f"/run/when/{event}").exists()
    assert (result.outcome, result.reason.split(";")[0]) == ("rolled-back", "the node is not Ready"), result
    assert_old_after_boot(node, GUEST_WAS)


@in_a_guest
@pytest.mark.parametrize(
    "event",
    shortened(
        ["stop kubelet", "apply mig_mode", "apply reboot", "prove mig_mode", "prove mig"], ("apply mig_mode",)
    ),
)
def test_a_unit_that_is_killed_in_a_guest_undoes_itself(node: Sandbox, port: int, event: str) -> None:
    when(node, event, KILL)
    node.run(start_script(guest_change(port)))
    result = through_boots(node)
    assert result.outcome == "rolled-back", result
    assert not node.path(f"/run/when/{event}").exists()
    assert_old_after_boot(node, GUEST_WAS)


@pytest.mark.long
@in_a_guest
@pytest.mark.parametrize("killed", ["killed-before", "killed-after"])
@pytest.mark.parametrize("call", ["nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode"])
def test_a_worker_that_is_killed_while_it_sets_a_mode_leaves_the_old_gpus(
    node: Sandbox, port: int, call: str, killed: str
) -> None:
    mode = f"mig enabled\n  fail {call} 1 {killed}"
    describe(node, GUEST.replace("mig enabled", mode))
    node.run(start_script(guest_change(port)))
    assert through_boots(node).outcome == "rolled-back"
    assert_old_after_boot(node, GUEST_WAS)


# ---- at a boot ----


def test_our_unit_brings_the_plan_back_after_a_boot(node: Sandbox, port: int) -> None:
    transaction = change(port)
    run(node, transaction)
    node.path("/etc/numaforge").mkdir(exist_ok=True)
    document = {"mig": json.loads(transaction.parts[1].data["planned.json"])}
    node.path("/etc/numaforge/plan.json").write_text(json.dumps(document))
    boot(node)
    worker = f"python3 -BEs {transaction.folder}/mig/worker.py boot /etc/numaforge/plan.json"
    done = node.run(worker)
    assert (done.returncode, done.stderr) == (0, "")
    assert found(node) == as_found(IS)
    again = node.run(worker)
    assert (again.returncode, found(node)) == (0, as_found(IS))


def test_our_unit_destroys_nothing_and_brings_every_other_gpu_to_the_plan(node: Sandbox, port: int) -> None:
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
    assert found(node) == as_found({FIRST: WAS[FIRST], SECOND: IS[SECOND]})
