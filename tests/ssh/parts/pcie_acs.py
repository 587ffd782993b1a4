"""Access control of two bridges, by the kernel's command line."""

from numaforge.change.transaction import Transaction
from numaforge.roles.gpudirect import part as pcie_acs
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kernel_cmdline.part import RECORD
from numaforge.roles.reboot import part as reboot
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.parts.subject import Subject
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import CMDLINE, debian, install, options, red_hat, with_control
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd
from tests.ssh.transactions import LARGE, MEMORY_STATE, SMALL, leftovers, transaction

NIC, GPU = "0000:17:00.0", "0000:17:02.0"
MASKS = {NIC: "1x111x1", GPU: "xx000x0"}
IDS = {NIC: "1000:c030", GPU: "1000:c030"}
PARAMETER = f"pci=realloc=off,config_acs={MASKS[NIC]}@{NIC};{MASKS[GPU]}@{GPU}"
LOADERS = {"grub": debian(), "grubby": red_hat()}


def start_node(start_sandbox: StartSandbox, port: int, loader: str = "grub") -> Sandbox:
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
    port: int, loader: str = "grub", removed: tuple[str, ...] = (), ids: dict[str, str] | None = None
) -> Transaction:
    planned = () if removed else (PARAMETER,)
    cmdline = kernel_cmdline.part(planned, planned, removed, loader)
    acs = () if removed else (pcie_acs.part(MASKS, ids or IDS),)
    files, *others = transaction(port, "new").parts
    return Transaction("T2" if removed else "T1", (files, cmdline, reboot.part(), *acs, *others))


def assert_old(node: Sandbox) -> None:
    assert options(node) == CMDLINE == node.path("/proc/cmdline").read_text().strip()
    assert not node.path(RECORD).exists()
    assert leftovers(node) == []


def assert_new(node: Sandbox) -> None:
    assert node.path("/proc/cmdline").read_text().split()[-1] == PARAMETER
    assert leftovers(node) == []


SUBJECT = Subject(
    "pcie_acs",
    start_node,
    change,
    assert_old,
    assert_new,
    forwards=("apply pcie_acs", "prove pcie_acs", "reboot"),
    back=("reboot", "undo pcie_acs", "prove pcie_acs"),
)
