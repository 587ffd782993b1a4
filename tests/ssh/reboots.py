"""Changes of a sandboxed node that go through boots."""

import time
from collections.abc import Callable
from typing import Any

from numaforge.change.transaction import Result, Transaction, revert_script, settle_script, start_script
from numaforge.lib.file_content import FileContent
from numaforge.roles.hugepages.files import HUGEPAGES_TMPFILES_PATH
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kernel_cmdline.part import RECORD
from numaforge.roles.kernel_values.files import SYSCTL_PATH
from numaforge.roles.reboot import part as reboot
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import CMDLINE, boot, debian, install, options, red_hat
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd
from tests.ssh.transactions import (
    GO_DOWN,
    LARGE,
    MEMORY_STATE,
    SMALL,
    SWAPPINESS,
    UNIT_DROP_IN,
    WAITS,
    confirm,
    leftovers,
    pages,
    process,
    status,
    transaction,
    until,
)

WISH = "iommu=pt"
PATIENCE_SECONDS = 120
CUT_POWER = """
for unit in /run/units/*; do
    if [ -e "$unit" ]; then main=$(cat "$unit"); kill -KILL "$(ps -o ppid= -p "$main")" "$main"; fi
done
rm -f /run/units/*
if [ -e /run/kubelet.pid ]; then kill -KILL "$(cat /run/kubelet.pid)"; rm -f /run/kubelet.pid; fi
: > /run/off
kill -KILL $PPID
"""


CUTS = {
    "power": CUT_POWER,
    "reboot": "systemctl reboot; kill -TERM $PPID\n",
    "soft-reboot": "systemctl soft-reboot; kill -TERM $PPID\n",
    "kubelet-first": GO_DOWN,
}
"""What ends a boot at an event."""


def read_at_boot(large: int, small: int, swappiness: int) -> tuple[FileContent, FileContent]:
    """Return the files with which a boot sets what the parts of a change set, too."""
    pools = f"w {LARGE} - - - - {large}\nw {SMALL} - - - - {small}\n"
    return (
        FileContent(HUGEPAGES_TMPFILES_PATH, pools),
        FileContent(SYSCTL_PATH, f"vm.swappiness = {swappiness}\n"),
    )


OLD_AT_BOOT, NEW_AT_BOOT = read_at_boot(1, 512, 60), read_at_boot(2, 16, 10)
LOADERS = {"grub": debian(), "grubby": red_hat()}


def bootable_node(start_sandbox: StartSandbox, port: int, loader: str = "grub") -> Sandbox:
    """Return a node with an older drop-in, older pools, and the boot loader of Debian or Red Hat."""
    files = {**machine(), **standin_systemd(port), **LOADERS[loader]}
    at_boot = {file.path: file.text for file in OLD_AT_BOOT}
    sandbox = start_sandbox({**files, LARGE: "1\n", SMALL: "512\n", DROP_IN: "old\n", **at_boot})
    install(sandbox)
    sandbox.run(f"systemctl start kubelet.service; until [ -e {STATE} ]; do sleep 0.05; done")
    sandbox.path(MEMORY_STATE).write_text("memory as it was\n")
    sandbox.run(f"chmod 600 {MEMORY_STATE}; : > /run/systemctl.log; mkdir -p /run/when /run/systemd/system")
    return sandbox


def change(port: int, wish: str = "new", loader: str = "grub", **more: Any) -> Transaction:
    """Return a change between two plans: each has files with which a boot sets what the parts set."""
    unit = FileContent(UNIT_DROP_IN, "[Service]\n", mode="0600")
    written = (FileContent(DROP_IN, f"{wish}\n"), unit, *NEW_AT_BOOT)
    files, *others = transaction(port, wish, **{"files": written, **more}).parts
    cmdline = kernel_cmdline.part((WISH,), (WISH,), (), loader)
    return Transaction("T1", (files, cmdline, reboot.part(), *others))


def through_boots(
    node: Sandbox,
    name: str = "T1",
    *,
    deaf: bool = False,
    config_acs: bool = True,
    at_boot: Callable[[], object] = lambda: None,
    before_kubelet: Callable[[Sandbox], object] = lambda _: None,
) -> Result:
    """Boot the node whenever it has gone down, until the transaction has ended.

    `at_boot` does what drivers do while the node comes up, `before_kubelet` looks at it when that starts.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        until(node, f"{{ [ -e /run/stopping ] || [ -e /run/off ] || {WAITS} || idle; }}")
        found = status(node, name)
        if found.waits and not node.path("/run/stopping").exists():
            confirm(node, name)
        if found.result is not None and not found.running:
            return found.result
        assert time.monotonic() < deadline, (found, node.path("/run/unit.log").read_text())
        if node.path("/run/stopping").exists() or node.path("/run/off").exists():
            until(node, "idle")
            at_boot()
            boot(node, deaf=deaf, config_acs=config_acs, before_kubelet=before_kubelet)
        elif found.broken_off:
            node.run(settle_script())


def carried_out(node: Sandbox, change: Transaction, **how: Any) -> Result:
    """Start a change, and boot the node as often as it goes down, until the change has ended."""
    node.run(start_script(change))
    return through_boots(node, change.id, **how)


def taken_back(node: Sandbox) -> Result:
    """Ask for the undo of an applied change, and boot the node until it has ended."""
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    until(node, "[ -e /run/stopping ]")
    return through_boots(node)


def assert_whole(node: Sandbox) -> None:
    """Assert that a kubelet which starts now finds one of the plans, and no half of another."""
    drop_in, swappiness = (node.path(path).read_text() for path in (DROP_IN, SWAPPINESS))
    old, new = ("old\n", "60\n", {LARGE: 1, SMALL: 512}), ("new\n", "10\n", {LARGE: 2, SMALL: 16})
    assert (drop_in, swappiness, pages(node)) in (old, new)


def assert_old(node: Sandbox) -> None:
    assert node.path(DROP_IN).read_text() == "old\n"
    assert [node.path(file.path).read_text() for file in OLD_AT_BOOT] == [file.text for file in OLD_AT_BOOT]
    assert node.path(MEMORY_STATE).read_text() == "memory as it was\n"
    assert (pages(node), node.path(SWAPPINESS).read_text()) == ({LARGE: 1, SMALL: 512}, "60\n")
    assert options(node) == CMDLINE == node.path("/proc/cmdline").read_text().strip()
    assert not node.path(RECORD).exists()
    assert leftovers(node) == []
    assert process(node).pid


def assert_new(node: Sandbox) -> None:
    assert node.path(DROP_IN).read_text() == "new\n"
    assert (pages(node), node.path(SWAPPINESS).read_text()) == ({LARGE: 2, SMALL: 16}, "10\n")
    assert node.path("/proc/cmdline").read_text().strip() == options(node) == f"{CMDLINE} {WISH}"
    assert leftovers(node) == []
    assert process(node).pid


FORWARDS = (
    "apply kernel_cmdline",
    "keeping",
    "stop kubelet",
    "apply files",
    ".numaforge-0",
    "apply reboot",
    "reboot",
    "apply kernel_values",
    "apply hugepages",
    "apply kubelet",
    "booted",
    "start kubelet",
    "prove kernel_cmdline",
    "prove kubelet",
    "prove kubelet again",
    "commit kernel_cmdline",
)
BACK = (
    "undo kernel_cmdline",
    "stop kubelet",
    "undo kubelet",
    "undo hugepages",
    "undo kernel_values",
    "undo reboot",
    "undo files",
    "start reboot",
    "reboot",
    "start kubelet",
    "prove kubelet",
)
