"""A change that only a boot brings: proved after it, undone with a second one, whole at every boundary."""

import pytest

from numaforge.change.transaction import CURRENT, settle_script, start_script
from numaforge.lib import shell
from numaforge.roles.kernel_cmdline.part import RECORD
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.reboots import WISH, assert_new, assert_old, bootable_node, carried_out, change, through_boots
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import CMDLINE, boots
from tests.ssh.transactions import status, until


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int, request: pytest.FixtureRequest) -> Sandbox:
    return bootable_node(start_sandbox, port, getattr(request, "param", "grub"))


@pytest.mark.variants(1)
@pytest.mark.parametrize(("node", "loader"), [("grub", "grub"), ("grubby", "grubby")], indirect=["node"])
def test_unhealthy_node_after_the_boot_rolls_back_with_a_second_boot(node, port, loader):
    result = carried_out(node, change(port, "crash", loader=loader))
    assert (result.outcome, result.reason) == (
        "rolled-back",
        "the kubelet ended by itself; the old configuration is back and the kubelet is healthy with it",
    )
    assert boots(node) == 2
    assert_old(node)


def test_missing_kernel_parameter_is_reported_without_another_boot(node, port):
    result = carried_out(node, change(port), deaf=True)
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(f'the kernel\'s command line is "{CMDLINE}": {WISH} is not there; ')
    assert boots(node) == 1
    assert_old(node)


@pytest.mark.variants(1)
@cases(
    "spoil, reason",
    {
        "the-node-does-not-reboot": ("refuse-reboot", "systemctl reboot failed"),
        "the-boot-loader-refuses": (
            "refuse-update-grub",
            "the kernel's command line could not be written: error: cannot find a device for /",
        ),
    },
)
def test_failed_reboot_preparation_is_undone_without_a_boot(node, port, spoil, reason):
    node.path(f"/run/{spoil}").touch()
    result = carried_out(node, change(port))
    assert (result.outcome, result.reason.split(";")[0]) == ("rolled-back", reason)
    assert boots(node) == 0
    assert_old(node)


def test_status_query_during_the_boot_disturbs_nothing(node, port):
    node.run(start_script(change(port)))
    until(node, "[ -e /run/stopping ] && idle")
    assert status(node).broken_off
    assert node.run(settle_script()).returncode == 0  # still on its way down
    assert status(node).result is None
    assert node.path(CURRENT).is_symlink()
    assert through_boots(node).outcome == "applied"
    assert_new(node)


@cases(
    "programs, folder, loader",
    {
        "grub-beside-entries": (("update-grub", "bootctl"), "/boot/loader/entries", "grub"),
        "grubby-writes-entries": (("grubby", "bootctl"), "/boot/loader/entries", "grubby"),
        "pop-os": (("kernelstub", "bootctl"), "/boot/efi/loader/entries", "kernelstub"),
        "systemd-boot": (("bootctl",), "/boot/efi/loader/entries", "systemd-boot"),
        "systemd-without-its-boot-loader": (("bootctl",), "/boot/other", "none"),
    },
)
def test_boot_loader_is_detected_by_its_tools(start_sandbox, programs, folder, loader):
    node = start_sandbox({**machine(), **{f"/usr/local/loader/{name}": "#!/bin/sh\n" for name in programs}})
    node.run(f"rm -rf /boot/loader /boot/efi/loader; mkdir -p {folder} /etc/default")
    tools = "ln -s $(command -v cat sed) /usr/local/loader; PATH=/usr/local/loader"
    look = shell.library("node/look", "roles/kernel_cmdline/look")
    said = node.run(f"{tools}\n{look}look_kernel_cmdline {RECORD}\n").stdout.splitlines()
    assert said[0] == f"loader {loader}"
