"""Interrupts and daemons over a real sshd: moved, repeated at a boot, given back, undone."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numaforge.change.transaction import settle_script, start_script
from numaforge.roles.interrupts.files import INTERRUPTS_PATH, INTERRUPTS_SCRIPT_PATH, IRQBALANCE_OFF_PATH
from numaforge.roles.kernel_values import part as kernel_values
from numaforge.verification import suite
from tests.fixtures.shortened import shortened
from tests.fixtures.tables import cases
from tests.ssh.confined import CONFINED
from tests.ssh.conftest import StartSandbox
from tests.ssh.parts.interrupts import change, start_node, state
from tests.ssh.sandbox import Sandbox, pyinfra, succeed
from tests.ssh.site_runs import data, plain, text
from tests.ssh.standin_devices import (
    DEFAULT,
    EVERYWHERE,
    INTERRUPTS,
    IRQBALANCE_FILE,
    NIC,
    NVME,
    RPS,
    SLICES,
    WORKQUEUES,
    affinity,
    effective,
    keeps,
)
from tests.ssh.standin_systemd import BOOT_ID
from tests.ssh.transactions import KILL, ended, until, when
from tests.ssh.verifying import verified

pytestmark = pytest.mark.core(
    "test_devices_and_daemons_move_to_the_reserved_cpus_without_a_reload",
    "test_profile_without_interrupts_restores_everything",
    "test_interrupt_that_the_kernel_refuses_to_move_undoes_everything",
    "test_unit_places_interrupts_after_a_boot_and_for_a_new_driver",
)
FREE = {"name": "free", "cpus": CONFINED["cpus"]}
IRQBALANCE_OFF = {**CONFINED, "interrupts": {**CONFINED["interrupts"], "irqbalance": "off"}}
MANAGED, INVALID = "Input/output error", "Invalid argument"


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return start_node(start_sandbox, port)


def tune(node: Sandbox, folder: Path, profile: dict[str, Any], *arguments: str) -> str:
    done = succeed(folder, {"node": data(node, profile)}, "-y", *arguments, "deploys/tune.py")
    return plain(done.stdout)


def test_devices_and_daemons_move_to_the_reserved_cpus_without_a_reload(node, tmp_path):
    tune(node, tmp_path, CONFINED)
    assert [text(node, affinity(number)) for number in INTERRUPTS[NIC]] == ["0,4"] * 2
    assert [text(node, affinity(number)) for number in INTERRUPTS[NVME]] == ["2,6"] * 2
    assert [text(node, path) for path in (DEFAULT, WORKQUEUES, RPS)] == ["55", "55", "11"]
    assert [text(node, effective(name)) for name in SLICES] == ["0,2,4,6"] * 3
    assert "daemon-reload" not in text(node, "/run/systemctl.log")


def test_irqbalance_bans_the_other_cpus(node, tmp_path):
    tune(node, tmp_path, CONFINED)
    assert text(node, IRQBALANCE_FILE).splitlines() == [
        "# the admin's",
        "IRQBALANCE_ARGS=--hintpolicy=subset",
        "# numaforge begin",
        "IRQBALANCE_BANNED_CPUS=aa",
        "IRQBALANCE_BANNED_CPULIST=1,3,5,7",
        "# numaforge end",
    ]
    assert "restart irqbalance.service" in text(node, "/run/systemctl.log")


def test_irqbalance_may_choose_among_the_planned_cpus(node, tmp_path):
    tune(node, tmp_path, CONFINED)
    node.path(affinity(30)).write_text("4\n")
    assert "noop: the node is already as planned" in tune(node, tmp_path, CONFINED, "-v")


def test_misplaced_interrupt_is_moved_back(node, tmp_path):
    tune(node, tmp_path, CONFINED)
    node.path(affinity(31)).write_text("0-7\n")
    dry = pyinfra(tmp_path, {"node": data(node, CONFINED)}, "--dry", "deploys/tune.py")
    assert re.search(rf"{NIC} +0-7 -> 0,4", plain(dry.stdout)), dry.stdout
    tune(node, tmp_path, CONFINED)
    assert text(node, affinity(31)) == "0,4"


def test_profile_without_interrupts_restores_everything(node, tmp_path):
    before = state(node)
    tune(node, tmp_path, CONFINED)
    assert state(node) != before
    tune(node, tmp_path, FREE)
    assert state(node) == before
    found = node.run("find /etc /var/lib/numaforge/lib /run/systemd/system.control -type f -o -type l").stdout
    assert not [path for path in found.splitlines() if "numaforge" in path and "plan.json" not in path]
    assert "50-AllowedCPUs" not in found
    assert "/etc/numaforge/slices" not in found
    assert not node.run("find /etc/systemd/system -name '*.d' -empty").stdout
    assert "noop: the node is already as planned" in tune(node, tmp_path, FREE, "-v")


def test_allowed_cpus_of_a_slice_set_by_an_admin_are_restored(node, tmp_path):
    node.run("systemctl set-property --runtime user.slice AllowedCPUs=0-3")
    tune(node, tmp_path, CONFINED)
    tune(node, tmp_path, FREE)
    assert text(node, "/run/slices/user.slice") == "0-3"
    assert text(node, effective("user.slice")) == "0-3"


def test_irqbalance_off_stops_irqbalance_until_the_setting_is_removed(node, tmp_path):
    tune(node, tmp_path, IRQBALANCE_OFF)
    assert node.run("systemctl is-active irqbalance.service").stdout == "inactive\n"
    assert f"ConditionPathExists=!{IRQBALANCE_OFF_PATH}" in text(node, IRQBALANCE_OFF_PATH)
    tune(node, tmp_path, FREE)
    assert node.run("systemctl is-active irqbalance.service").stdout == "active\n"
    assert not node.path(IRQBALANCE_OFF_PATH).exists()


def test_host_without_irqbalance_needs_no_restriction(node, tmp_path):
    node.run("systemctl stop irqbalance.service; rm /run/services/irqbalance.service")
    tune(node, tmp_path, CONFINED)
    assert "numaforge" not in text(node, IRQBALANCE_FILE)
    assert "noop: the node is already as planned" in tune(node, tmp_path, CONFINED, "-v")


def test_settings_missing_from_kernel_are_skipped_and_reported(node, tmp_path):
    node.path(WORKQUEUES).unlink()
    node.path(RPS).unlink()
    assert "left alone: workqueues, rps of eth7, which this kernel does not offer" in tune(
        node, tmp_path, CONFINED
    )
    assert text(node, DEFAULT) == "55"
    assert "left alone: workqueues" in tune(node, tmp_path, CONFINED)  # each run says it


def test_managed_interrupt_is_reported_without_a_failure(node, tmp_path):
    keeps(node, 41, MANAGED)
    assert "1 interrupts are placed by the kernel alone" in tune(node, tmp_path, CONFINED)
    assert text(node, affinity(40)) == "2,6"
    assert "noop: the node is already as planned" in tune(node, tmp_path, CONFINED, "-v")


def test_interrupt_that_the_kernel_refuses_to_move_undoes_everything(node, tmp_path):
    before = state(node)
    keeps(node, 41, INVALID)
    done = pyinfra(tmp_path, {"node": data(node, CONFINED)}, "-y", "deploys/tune.py")
    assert done.returncode != 0
    assert f"{affinity(41)}: the kernel refuses 2,6 (Invalid argument)" in plain(done.stdout)
    assert state(node) == before
    assert not node.path(INTERRUPTS_PATH).exists()


def test_slice_that_systemd_refuses_undoes_everything_and_restarts_irqbalance(node, tmp_path):
    before = state(node)
    node.run("mkdir -p /run/broken; : > /run/broken/user.slice")
    done = pyinfra(tmp_path, {"node": data(node, IRQBALANCE_OFF)}, "-y", "deploys/tune.py")
    assert "systemctl set-property user.slice AllowedCPUs=0,2,4,6 failed" in plain(done.stdout)
    assert text(node, effective("system.slice")) == EVERYWHERE
    assert {path: value for path, value in state(node).items() if "slice" not in path} == {
        path: value for path, value in before.items() if "slice" not in path
    }
    assert node.run("systemctl is-active irqbalance.service").stdout == "active\n"


def test_unit_places_interrupts_after_a_boot_and_for_a_new_driver(node, tmp_path):
    tune(node, tmp_path, CONFINED)
    node.run("rm -rf /run/numaforge")
    for number in INTERRUPTS[NIC]:
        node.path(affinity(number)).write_text("0-7\n")
    command = f"sh {INTERRUPTS_SCRIPT_PATH} {INTERRUPTS_PATH}"
    assert node.run(command).returncode == 0
    assert text(node, affinity(30)) == "0,4"
    folder = node.path(f"/sys/bus/pci/devices/{NIC}/msi_irqs")
    (folder / "30").rename(folder / "50")
    node.run(f"mkdir -p /proc/irq/50; echo 0-7 > {affinity(50)}")
    assert node.run(command).returncode == 0
    assert text(node, affinity(50)) == "0,4"
    tune(node, tmp_path, FREE)
    assert [text(node, affinity(number)) for number in (31, 50)] == ["0-7", "0-7"]


@pytest.mark.parametrize("shell", shortened(["dash", "bash", "busybox sh"], ("busybox sh",)))
def test_unit_script_works_in_every_shell(node, tmp_path, shell):
    tune(node, tmp_path, CONFINED)
    node.path(affinity(40)).write_text("0-7\n")
    keeps(node, 41, MANAGED)
    done = node.run(f"{shell} {INTERRUPTS_SCRIPT_PATH} {INTERRUPTS_PATH}")
    assert (done.returncode, done.stderr) == (0, "")
    assert text(node, affinity(40)) == "2,6"


def test_unit_script_fails_and_names_the_refused_affinity(node, tmp_path):
    tune(node, tmp_path, CONFINED)
    node.path(affinity(41)).write_text("0-7\n")
    keeps(node, 41, INVALID)
    done = node.run(f"sh {INTERRUPTS_SCRIPT_PATH} {INTERRUPTS_PATH}")
    assert done.returncode == 1
    assert done.stderr == f"{affinity(41)}: the kernel refuses 2,6 (Invalid argument)\n"


@cases(
    "edit, left",
    {
        "a-line-of-another-stays": ("echo IRQBALANCE_ONESHOT=1", ["IRQBALANCE_ONESHOT=1"]),
        "a-file-that-another-has-removed-stays-so": ("rm", None),
    },
)
def test_undo_removes_only_numaforge_lines_from_an_edited_file(node, edit, left):
    before = text(node, IRQBALANCE_FILE).splitlines()
    when(node, "prove interrupts", f"{edit} {'>>' if left else ''} {IRQBALANCE_FILE}; {KILL}")
    node.run(start_script(change()))
    until(node, "idle")
    node.run(settle_script())
    assert ended(node).outcome == "rolled-back"
    if left is None:
        assert not node.path(IRQBALANCE_FILE).exists()
    else:
        assert text(node, IRQBALANCE_FILE).splitlines() == [*before, *left]


def test_undo_after_a_boot_ignores_old_interrupt_numbers(node):
    """A number of the boot before may be another device's."""
    node.run(f"echo 3 > {affinity(30)}")
    failing = kernel_values.part({"/proc/sys/vm/swappiness": "10"}, {"/proc/sys/vm/swappiness": "60"})
    both = change()
    first = replace(both, parts=(both.parts[0], failing))
    when(
        node,
        "apply kernel_values",
        f"echo second > {BOOT_ID}; echo 0-7 > {affinity(30)}; rm -rf /run/numaforge; kill -KILL $PPID",
    )
    node.run(start_script(first))
    until(node, "idle")
    node.run(settle_script())
    assert ended(node).outcome == "rolled-back"
    assert text(node, affinity(30)) == "0-7"


VERIFIED = "test_kernel_value or test_irqbalance or test_daemons"


def found_wrong(node: Sandbox, folder: Path) -> list[str]:
    """Return the failed tests of the verification suite that are about interrupts and daemons."""
    failed = suite.failures(verified(node, folder, "-k", VERIFIED))
    return [test.name.replace("ssh://node-", "") for test in failed]


def test_verification_finds_misplaced_interrupts_and_processes(node, tmp_path):
    keeps(node, 41, MANAGED)
    tune(node, tmp_path, CONFINED)
    assert found_wrong(node, tmp_path) == ["test_irqbalance[reserved]"]  # started without an environment
    node.path(affinity(30)).write_text("0-7\n")
    for path in (RPS, WORKQUEUES):
        node.path(path).write_text("ff\n")
    node.run("echo 1 > /sys/fs/cgroup/user.slice/cgroup.procs")
    node.path(effective("system.slice")).write_text("0-7\n")
    assert sorted(found_wrong(node, tmp_path)) == [
        "test_daemons[user.slice]",
        "test_irqbalance[reserved]",
        "test_kernel_value[cpu_mask:workqueues]",
        "test_kernel_value[daemons:system.slice]",
        f"test_kernel_value[interrupts:{NIC}]",
        "test_kernel_value[packet_steering:eth7]",
    ]
