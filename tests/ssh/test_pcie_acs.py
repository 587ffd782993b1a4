"""PCIe access control comes with a boot and is proved in the bridges, not by the kernel's command line."""

import pytest

from numaforge.change.transaction import Transaction, start_script
from numaforge.roles.gpudirect import part as pcie_acs
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kernel_cmdline.part import DROP_IN as GRUB_DROP_IN
from numaforge.roles.kernel_cmdline.part import RECORD
from numaforge.roles.reboot import part as reboot
from tests.fixtures.shortened import shortened
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.reboots import through_boots
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import (
    CMDLINE,
    ENTRY,
    boots,
    debian,
    install,
    options,
    red_hat,
    with_control,
)
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd
from tests.ssh.transactions import LARGE, MEMORY_STATE, SMALL, leftovers, transaction

NIC, GPU = "0000:17:00.0", "0000:17:02.0"
MASKS = {NIC: "1x111x1", GPU: "xx000x0"}
IDS = {NIC: "1000:c030", GPU: "1000:c030"}
PARAMETER = f"pci=realloc=off,config_acs={MASKS[NIC]}@{NIC};{MASKS[GPU]}@{GPU}"
LOADERS = {"grub": debian(), "grubby": red_hat()}


@pytest.fixture(params=shortened(["grub", "grubby"], ("grub",)))
def loader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def node(start_sandbox: StartSandbox, loader: str, port: int) -> Sandbox:
    """A node with two bridges as the kernel sets them by itself."""
    bridges = {
        f"/sys/bus/pci/devices/{address}/{name}": f"0x{text}\n"
        for address, ids in IDS.items()
        for name, text in zip(("vendor", "device"), ids.split(":"), strict=True)
    }
    sandbox = start_sandbox(
        {
            **machine(),
            **standin_systemd(port),
            **LOADERS[loader],
            **bridges,
            LARGE: "1\n",
            SMALL: "512\n",
            DROP_IN: "old\n",
        }
    )
    for address in IDS:
        sandbox.path(f"/sys/bus/pci/devices/{address}/config").write_bytes(with_control("xx111x1"))
    install(sandbox)
    sandbox.run(f"systemctl start kubelet.service; until [ -e {STATE} ]; do sleep 0.05; done")
    sandbox.path(MEMORY_STATE).write_text("memory as it was\n")
    sandbox.run(f"chmod 600 {MEMORY_STATE}; mkdir -p /run/when /run/systemd/system")
    return sandbox


def change(
    port: int, loader: str, removed: tuple[str, ...] = (), ids: dict[str, str] | None = None
) -> Transaction:
    planned = () if removed else (PARAMETER,)
    cmdline = kernel_cmdline.part(planned, planned, removed, loader)
    acs = () if removed else (pcie_acs.part(MASKS, ids or IDS),)
    files, *others = transaction(port, "new").parts
    return Transaction("T2" if removed else "T1", (files, cmdline, reboot.part(), *acs, *others))


def test_the_masks_reach_the_kernel_through_the_boot_loaders_shell_and_are_proved(
    node: Sandbox, port: int, loader: str
) -> None:
    node.run(start_script(change(port, loader)))
    result = through_boots(node)
    assert result.outcome == "applied", result
    assert boots(node) == 1
    assert node.path("/proc/cmdline").read_text().split()[-1] == PARAMETER
    text = node.path(GRUB_DROP_IN if loader == "grub" else ENTRY).read_text()
    assert PARAMETER.removeprefix("pci=") + ('\\"' if loader == "grub" else '"') in text


def test_a_kernel_that_passes_the_option_over_is_found_out_and_the_node_goes_back(
    node: Sandbox, port: int, loader: str
) -> None:
    node.run(start_script(change(port, loader)))
    result = through_boots(node, config_acs=False)
    assert result.outcome == "rolled-back"
    assert f"the kernel has not set {MASKS[NIC]} on the bridge {NIC} (it has 29)" in result.reason
    assert boots(node) == 2
    assert options(node) == CMDLINE == node.path("/proc/cmdline").read_text().strip()
    assert not node.path(RECORD).exists()
    assert leftovers(node) == []


def test_another_bridge_at_the_address_is_found_out(node: Sandbox, port: int, loader: str) -> None:
    node.run(start_script(change(port, loader, ids={**IDS, GPU: "1000:c034"})))
    result = through_boots(node)
    assert result.outcome == "rolled-back"
    assert f"the bridge {GPU} is 1000:c030, not 1000:c034: PCI addresses have changed" in result.reason


def test_what_is_removed_leaves_the_hosts_own_options(node: Sandbox, port: int, loader: str) -> None:
    if loader == "grubby":
        entry = node.path(ENTRY)
        entry.write_text(entry.read_text().replace(" quiet", " quiet pci=realloc=off"))
    before = options(node)
    node.run(start_script(change(port, loader)))
    assert through_boots(node).outcome == "applied"
    node.run(start_script(change(port, loader, removed=(PARAMETER,))))
    assert through_boots(node, "T2").outcome == "applied"
    assert sorted(options(node).split()) == sorted(before.split())
