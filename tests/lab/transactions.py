"""Transactions on the virtual node, past every check of ours, watched through reboots and resets."""

import subprocess
from collections.abc import Callable, Iterable

from lab.cluster import Lab
from lab.node import Node
from lab.roots import build_systemd
from lab.waiting import wait_until
from numaforge.change.transaction import (
    BOOT_UNIT,
    CURRENT,
    Process,
    Result,
    Status,
    Transaction,
    confirm_script,
    process_script,
    read_process,
    read_status,
    revert_script,
    start_script,
    status_script,
)
from numaforge.lib.file_content import FileContent
from numaforge.node.bundle import FileChange
from numaforge.node.part import Part
from numaforge.roles.files import part as files
from numaforge.roles.kubelet import part as kubelet

UNIT = "kubelet.service"
CONFIG = "/var/lib/kubelet/config.yaml"
UNIT_DROP_IN = "/etc/systemd/system/kubelet.service.d/90-numaforge.conf"
CPU_STATE = "/var/lib/kubelet/cpu_manager_state"
MEMORY_STATE = "/var/lib/kubelet/memory_manager_state"
STATIC = "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n"
MANAGERS_RUN = "grep -q /var/lib/kubelet/device-plugins/kubelet.sock /proc/net/unix"
WAITS = f"grep -qsx confirming {CURRENT}/state"
"""Whether a transaction waits for its confirmation, on the node."""
OVER = f"{{ [ -e /var/lib/numaforge/txn/T1/result.json ] && [ ! -L {CURRENT} ]; }}"
MORTAL = ("-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=10")
"""Options of a login to a node that may be reset, and then does not even end the connection."""
PATIENCE_SECONDS = 1500
"""Two boots and two proofs, with room for a busy machine."""


def change(
    node: Node,
    addition: str,
    *written: FileContent,
    between: Iterable[Part] = (),
    invalid_state: Iterable[str] = (CPU_STATE,),
    kept_state: Iterable[str] = (MEMORY_STATE,),
) -> Transaction:
    """Describe a change of the kubelet's main file and others; `between` are parts below the kubelet."""
    config = FileContent(CONFIG, node.run(f"cat {CONFIG}") + addition)
    changed = [FileChange(file.path, None, file) for file in (*written, config)]
    last = kubelet.part(
        UNIT,
        invalid_state=tuple(invalid_state),
        kept_state=tuple(kept_state),
        unit_files=any(file.path == UNIT_DROP_IN for file in written),
        start_seconds=300,
        stable_seconds=3,
    )
    return Transaction("T1", (files.part(changed), *between, last))


def begin(node: Node, transaction: Transaction, *, check: bool = True) -> None:
    """Hand the node the transaction; without `check` it may be reset before it has answered."""
    _hand(node, start_script(transaction), check=check)


def revert(node: Node, reason: str, *, check: bool = True) -> None:
    """Have the node undo what was applied; without `check` it may be reset before it has answered."""
    _hand(node, revert_script("T1", reason, status(node)), check=check)


def status(node: Node) -> Status:
    return read_status(node.run("sh -s", input_text=status_script("T1")))


def process(node: Node) -> Process:
    """Return the kubelet's process."""
    return read_process(node.run("sh -s", input_text=process_script(UNIT)))


def until(node: Node, condition: str, patience_s: int = 600) -> None:
    """Wait on the node, which must not reboot meanwhile."""
    node.run(
        f"for _ in $(seq {patience_s * 2}); do if {condition}; then exit; fi; sleep 0.5; done; exit 1",
        timeout_s=patience_s + 60,
    )


def until_through_boots(node: Node, condition: str) -> None:
    """Wait for a node that may reboot meanwhile, and then lets nobody in; a login costs more than a look."""
    login = node.ssh_arguments(*MORTAL)
    looks = f"for _ in $(seq 20); do if {condition}; then exit; fi; sleep 1; done; exit 1"
    _until(lambda: subprocess.run([*login, looks], capture_output=True, check=False).returncode == 0)


def ended(node: Node) -> Result:
    """Confirm the transaction once it waits for that; wait until it has its result, and its unit is gone."""
    until_through_boots(node, f"{WAITS} || {OVER}")
    if status(node).waits:
        _hand(node, confirm_script("T1", status(node).token), check=True)
    until_through_boots(node, OVER)
    found = status(node)
    assert found.result
    assert not found.broken_off
    return found.result


def run(node: Node, transaction: Transaction) -> Result:
    begin(node, transaction)
    return ended(node)


RESET = """#!/bin/sh
/bin/mv "$@" || exit
for target; do :; done
case $target in
*/txn/*/state) read -r at < "$target" ;;
*) at=${2##*/} ;;
esac
if [ "$at" = "EVENT" ]; then
    rm "$0"
    sync
    CUT
    sleep 1000
fi
"""
"""Stands for `mv`, with which each step is recorded and each file placed; it ends the boot once."""
CUTS = {
    "power": "echo b > /proc/sysrq-trigger",
    "reboot": "systemctl reboot",
    "soft-reboot": "systemctl soft-reboot",
}
"""What ends a boot."""


def reset_at(node: Node, event: str) -> None:
    """Have the machine reset when a step is recorded or a file is placed."""
    script = RESET.replace("EVENT", event).replace("CUT", CUTS["power"])
    node.run("cat > /usr/local/bin/mv; chmod +x /usr/local/bin/mv; sync", input_text=script)


def end_boot(node: Node, cut: str) -> None:
    """End the boot that a node is in, by the machine's button or as asked."""
    _hand(node, CUTS[cut], check=False)


def upgrade_systemd(node: Node) -> None:
    """Lay a systemd that knows a soft reboot over a node that is up; what its units are set to stays."""
    files = subprocess.run(
        ["tar", "-C", build_systemd(), "-cz", "bin", "lib", "sbin", "usr"], capture_output=True, check=True
    )
    unpack = "tar -C / --keep-directory-symlink --no-overwrite-dir -xz && ldconfig && systemctl daemon-reexec"
    subprocess.run([*node.ssh_arguments(), unpack], input=files.stdout, check=True)


def put_back(lab: Lab) -> Node:
    """Return the first node as it was when it was first Ready."""
    lab.reset()
    node = lab.nodes[0]
    until(node, MANAGERS_RUN)
    return node


def boots(node: Node) -> int:
    """Count the boots since the node was put back, by what GRUB says on its console."""
    return (node.folder / "console.log").read_bytes().count(b"Loading initial ramdisk")


def ready(lab: Lab, node: Node) -> None:
    """Wait until the API has the node Ready in the boot that it is in."""
    boot = node.run("cat /proc/sys/kernel/random/boot_id").strip()

    def is_ready() -> bool:
        now = lab.get("node", node.name)["status"]
        conditions = {each["type"]: each["status"] for each in now["conditions"]}
        return bool(conditions["Ready"] == "True" and now["nodeInfo"]["bootID"] == boot)

    _until(is_ready)


def seen(node: Node) -> str:
    """Return everything that an undone change must leave as it was."""
    return node.run(
        f"cat {CONFIG} {CPU_STATE} {MEMORY_STATE}; stat -c '%n %a %U %G' {CONFIG} {CPU_STATE} {MEMORY_STATE};"
        f" ls {BOOT_UNIT} {UNIT_DROP_IN} {CURRENT} 2>&1; curl -fs http://127.0.0.1:10248/healthz"
    )


def _hand(node: Node, script: str, *, check: bool) -> None:
    login = node.ssh_arguments(*MORTAL)
    subprocess.run([*login, "sh -s"], input=script, capture_output=True, text=True, check=check)


def _until(holds: Callable[[], bool]) -> None:
    wait_until(holds, "is not what the test needs", PATIENCE_SECONDS, every_s=1)
