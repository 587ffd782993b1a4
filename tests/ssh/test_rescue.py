"""A change with which the node boots into emergency or rescue mode is taken back, with one more boot."""

import shutil
import subprocess
from pathlib import Path

import pytest

from numaforge.change.transaction import (
    BOOT_UNIT,
    CURRENT,
    RESCUE_UNIT,
    Transaction,
    revert_script,
    start_script,
)
from numaforge.lib.file_content import FileContent
from numaforge.node.bundle import FileChange
from numaforge.roles.files import part as files
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.reboot import part as reboot
from tests.ssh.conftest import StartSandbox
from tests.ssh.reboots import (
    CUT_POWER,
    WISH,
    assert_new,
    assert_old,
    bootable_node,
    carried_out,
    change,
    through_boots,
)
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import CMDLINE, boot, boots, options
from tests.ssh.transactions import leftovers, status, until, when

pytestmark = pytest.mark.core(
    "test_emergency_or_rescue_boot_undoes_the_change_and_reboots",
    "test_node_in_emergency_mode_without_the_change_is_not_rebooted_again",
)
FSTAB = "/etc/fstab"
LINKS = [
    "/etc/systemd/system/emergency.target.wants/numaforge-rescue.service",
    "/etc/systemd/system/rescue.target.wants/numaforge-rescue.service",
]


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return bootable_node(start_sandbox, port)


@pytest.fixture
def fstab(node: Sandbox) -> None:
    """The node has no other file systems that a boot mounts."""
    node.path(FSTAB).write_text("# none\n")


def gone_down(node: Sandbox) -> None:
    until(node, "[ -e /run/stopping ] && idle")


@pytest.mark.variants(1)
@pytest.mark.usefixtures("fstab")
@pytest.mark.parametrize("mode", ["emergency.target", "rescue.target"])
def test_emergency_or_rescue_boot_undoes_the_change_and_reboots(node, port, mode):
    node.run(start_script(change(port)))
    gone_down(node)
    assert all(node.path(link).is_symlink() for link in LINKS)
    boot(node, mode=mode)
    assert node.path("/run/stopping").exists(), node.path("/run/console").read_text()
    assert options(node) == CMDLINE, "the next boot is one without the change"
    result = through_boots(node)
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith('the boot ended in emergency or rescue mode ("reboot"); ')
    assert boots(node) == 2
    assert_old(node)
    assert [link for link in LINKS if node.path(link).is_symlink()] == []
    assert not node.path(LINKS[0]).parent.exists()


@pytest.mark.usefixtures("fstab")
def test_power_cut_before_an_emergency_boot_leaves_the_old_state(node, port):
    when(node, "apply kernel_cmdline", CUT_POWER)
    node.run(start_script(change(port)))
    until(node, "[ -e /run/off ] && idle")
    boot(node, mode="emergency.target")
    assert through_boots(node).outcome == "rolled-back"
    assert_old(node)


@pytest.mark.long
@pytest.mark.usefixtures("fstab")
def test_revert_through_an_emergency_boot_keeps_its_reason(node, port):
    assert carried_out(node, change(port)).outcome == "applied"
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    gone_down(node)
    boot(node, mode="emergency.target")
    result = through_boots(node)
    assert (result.outcome, result.reason.split(";")[0]) == ("rolled-back", "the node is not Ready"), result
    assert_old(node)


@pytest.mark.usefixtures("fstab")
def test_node_in_emergency_mode_without_the_change_is_not_rebooted_again(node, port):
    node.run(start_script(change(port)))
    gone_down(node)
    boot(node, mode="emergency.target")
    boot(node, mode="emergency.target")
    assert not node.path("/run/stopping").exists()
    assert "boots into this mode without the change, too" in node.path("/run/console").read_text()
    assert options(node) == CMDLINE
    assert node.path(CURRENT).is_symlink(), "a boot that comes up still has to end it"
    assert status(node).result is None
    boot(node)  # a person has mended what it was
    assert through_boots(node).outcome == "rolled-back"
    assert_old(node)


@pytest.mark.usefixtures("fstab")
def test_rescue_mode_requested_on_a_booted_node_changes_nothing(node, port):
    when(node, "apply kernel_cmdline", ": > /run/asked; until [ -e /run/go ]; do sleep 0.1; done")
    node.run(start_script(change(port)))
    until(node, "[ -e /run/asked ]")
    assert node.run(f"sh {CURRENT}/run.sh rescue").returncode == 0
    assert not node.path("/run/stopping").exists()
    node.run(": > /run/go")
    assert through_boots(node).outcome == "applied"
    assert_new(node)


@pytest.mark.usefixtures("fstab")
def test_ended_change_is_not_rescued(node, port):
    assert carried_out(node, change(port)).outcome == "applied"
    boot(node, mode="emergency.target")
    assert not node.path("/run/stopping").exists()
    assert f"{CMDLINE} {WISH}" == options(node)
    assert leftovers(node) == []


def test_rescue_units_create_no_boot_ordering_cycle(node, tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    parts = (
        files.part([FileChange("/etc/test.conf", None, FileContent("/etc/test.conf", "new\n"))]),
        kernel_cmdline.part((WISH,), (WISH,), (), "grub"),
        reboot.part(),
    )
    node.run(start_script(Transaction("T1", parts)))
    gone_down(node)
    for target, path in (
        ("multi-user.target", BOOT_UNIT),
        ("emergency.target", RESCUE_UNIT),
        ("rescue.target", RESCUE_UNIT),
    ):
        folder = tmp_path / target
        (folder / f"{target}.wants").mkdir(parents=True)
        unit = folder / Path(path).name
        unit.write_text(node.path(path).read_text())
        (folder / f"{target}.wants" / unit.name).symlink_to(unit)
        said = subprocess.run(
            [program, "verify", "--man=no", target],
            env={"SYSTEMD_UNIT_PATH": f"{folder}:"},
            capture_output=True,
            text=True,
            check=False,
        )
        ours = [line for line in said.stderr.splitlines() if "numaforge" in line or "cycle" in line]
        assert ours == [], (target, said.stderr)
