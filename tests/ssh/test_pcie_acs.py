"""PCIe access control comes with a boot and is proved in the bridges, not by the kernel's command line."""

import pytest

from numaforge.roles.kernel_cmdline.part import DROP_IN as GRUB_DROP_IN
from numaforge.roles.kernel_cmdline.part import RECORD
from tests.fixtures.shortened import shortened
from tests.ssh.conftest import StartSandbox
from tests.ssh.parts.pcie_acs import GPU, IDS, MASKS, NIC, PARAMETER, change, start_node
from tests.ssh.reboots import carried_out
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import CMDLINE, ENTRY, boots, options
from tests.ssh.transactions import leftovers

pytestmark = pytest.mark.core(
    "test_acs_masks_survive_the_boot_loaders_shell_and_are_proved",
    "test_change_is_undone_when_kernel_ignores_config_acs",
)


@pytest.fixture(params=shortened(["grub", "grubby"], ("grub",)))
def loader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int, loader: str) -> Sandbox:
    return start_node(start_sandbox, port, loader)


def test_acs_masks_survive_the_boot_loaders_shell_and_are_proved(node, port, loader):
    result = carried_out(node, change(port, loader))
    assert result.outcome == "applied", result
    assert boots(node) == 1
    assert node.path("/proc/cmdline").read_text().split()[-1] == PARAMETER
    text = node.path(GRUB_DROP_IN if loader == "grub" else ENTRY).read_text()
    assert PARAMETER.removeprefix("pci=") + ('\\"' if loader == "grub" else '"') in text


def test_change_is_undone_when_kernel_ignores_config_acs(node, port, loader):
    result = carried_out(node, change(port, loader), config_acs=False)
    assert result.outcome == "rolled-back"
    assert f"the kernel has not set {MASKS[NIC]} on the bridge {NIC} (it has 29)" in result.reason
    assert boots(node) == 2
    assert options(node) == CMDLINE == node.path("/proc/cmdline").read_text().strip()
    assert not node.path(RECORD).exists()
    assert leftovers(node) == []


def test_change_is_undone_when_another_bridge_has_the_address(node, port, loader):
    result = carried_out(node, change(port, loader, ids={**IDS, GPU: "1000:c034"}))
    assert result.outcome == "rolled-back"
    assert f"the bridge {GPU} is 1000:c030, not 1000:c034: PCI addresses have changed" in result.reason


def test_removing_our_option_keeps_the_hosts_options(node, port, loader):
    if loader == "grubby":
        entry = node.path(ENTRY)
        entry.write_text(entry.read_text().replace(" quiet", " quiet pci=realloc=off"))
    before = options(node)
    assert carried_out(node, change(port, loader)).outcome == "applied"
    assert carried_out(node, change(port, loader, removed=(PARAMETER,))).outcome == "applied"
    assert sorted(options(node).split()) == sorted(before.split())
