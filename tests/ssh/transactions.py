"""Transactions that a test begins, cuts off and waits for on a sandboxed node."""

import time
from pathlib import Path
from typing import Any

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
from numaforge.lib.framing import Answer
from numaforge.node.bundle import FileChange
from numaforge.roles.files import part as files
from numaforge.roles.hugepages import part as hugepages
from numaforge.roles.kernel_values import part as kernel_values
from numaforge.roles.kernel_values.part import RECORD
from numaforge.roles.kubelet import part as kubelet
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine, pool
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import BOOT_ID, DROP_IN, STATE, standin_systemd

MEMORY_STATE = "/var/lib/kubelet/memory_manager_state"
UNIT_DROP_IN = "/etc/systemd/system/kubelet.service.d/90-numaforge.conf"
BOOT_LINK = "/etc/systemd/system/multi-user.target.wants/numaforge-recover.service"
PATIENCE_SECONDS = 90
WAITS = (
    f'{{ read -r phase < {CURRENT}/state && [ "$phase" = confirming ] && ! [ -e {CURRENT}/confirmed ]; }}'
    " 2> /dev/null"
)
"""Whether a transaction waits for its confirmation, on the node."""
KEEPS_OUT = f"if {WAITS}; then exit 1; fi"
"""What a login does on a host that runs on and refuses new logins, once it has changed."""
HOLD = "touch /run/held; until [ -e /run/go ]; do sleep 0.05; done"
SWAPPINESS = "/proc/sys/vm/swappiness"
LARGE, SMALL = pool(0, 2**20), pool(0, 2048)
KILL = "kill -KILL $PPID"
# What runs a unit is killed first: it would run the unit's other half, which no power cut does.
NO_POWER = f"""
main=$(cat /run/units/*); runner=$(ps -o ppid= -p "$main"); rm -f /run/units/*
kill -KILL $runner $(cat /run/kubelet.pid); rm -f /run/kubelet.pid
echo "the second boot" > {BOOT_ID}
"""
CUT_POWER = f'{NO_POWER}kill -KILL $PPID "$main"\n'


def node_with_kubelet(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """Return a node whose kubelet runs with an older drop-in, older pools, and has written its state."""
    pools = {LARGE: "1\n", SMALL: "512\n"}
    sandbox = start_sandbox({**machine(), **standin_systemd(port), **pools, DROP_IN: "old\n"})
    sandbox.run(f"systemctl start kubelet.service; until [ -e {STATE} ]; do sleep 0.05; done")
    sandbox.path(MEMORY_STATE).write_text("memory as it was\n")
    sandbox.path(MEMORY_STATE).chmod(0o600)
    sandbox.run(
        f"chown 4001:4002 {MEMORY_STATE}; : > /run/systemctl.log; mkdir -p /run/when /run/systemd/system"
    )
    return sandbox


def transaction(port: int, wish: str, **changes: Any) -> Transaction:
    """Return a change of everything that the first parts know; `changes` are of its ingredients."""
    wanted: dict[str, Any] = {
        "id": "T1",
        "files": (FileContent(DROP_IN, f"{wish}\n"), FileContent(UNIT_DROP_IN, "[Service]\n", mode="0600")),
        "absent": (),
        "values": {SWAPPINESS: "10"},
        "invalid_state": [STATE],
        "pools": {LARGE: 2, SMALL: 16},
        "restart": True,
        "start_seconds": 60,
        "stable_seconds": 1,
        "planned_on": None,
        **changes,
    }
    changed = [FileChange(file.path, None, file) for file in wanted["files"]]
    changed += [FileChange(path, None, None) for path in wanted["absent"]]
    pools = wanted["pools"]
    parts = (
        files.part(changed),
        kernel_values.part(wanted["values"], dict.fromkeys(wanted["values"], "60")),
        *([hugepages.part(pools, dict.fromkeys(pools, 0))] if pools else []),
        kubelet.part(
            "kubelet.service",
            invalid_state=wanted["invalid_state"],
            kept_state=[path for path in (STATE, MEMORY_STATE) if path not in wanted["invalid_state"]],
            health=("127.0.0.1", port),
            restart=wanted["restart"],
            unit_files=any(file.path == UNIT_DROP_IN for file in wanted["files"]),
            start_seconds=wanted["start_seconds"],
            stable_seconds=wanted["stable_seconds"],
        ),
    )
    return Transaction(wanted["id"], parts, planned_on=wanted["planned_on"])


def when(node: Sandbox, event: str, script: str) -> None:
    """Have a script run once, when a phase has been recorded or a staged file has been placed."""
    node.path(f"/run/when/{event}").write_text(script)


def hold(node: Sandbox) -> None:
    """Have the next change wait in the middle until /run/go is there."""
    node.run("mkdir -p /run/when")
    when(node, "apply files", HOLD)


def pages(node: Sandbox) -> dict[str, int]:
    return {path: int(node.path(path).read_text()) for path in (LARGE, SMALL)}


def status(node: Sandbox, name: str = "T1", seen: Status | None = None) -> Status:
    return read_status(node.run(status_script(name, seen)).stdout)


def process(node: Sandbox) -> Process:
    """Return the kubelet's process."""
    return read_process(node.run(process_script("kubelet.service")).stdout)


def ended(node: Sandbox, name: str = "T1") -> Result:
    """Wait until a transaction has its result, and is over."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        until(node, f"idle || {WAITS}")
        now = status(node, name)
        if now.waits:
            confirm(node, name)
        elif now.result is not None and not now.running:
            return now.result
        assert not now.broken_off, f"broken off while {now.phase}"
        assert time.monotonic() < deadline, node.path("/run/unit.log").read_text()


def confirm(node: Sandbox, name: str = "T1") -> str:
    done = node.run(confirm_script(name, status(node, name).token))
    assert done.returncode == 0, done.stderr
    return said(done.stdout)


def said(output: str) -> str:
    return " ".join(Answer.of(output).lines)


def until(node: Sandbox, condition: str) -> None:
    """Wait on the node, where asking costs nothing; `idle` says that no unit of a transaction is at work.

    bash waits without a program for it.
    """
    idle = 'idle() { set -- /run/units/*; ! [ -e "$1" ]; }'
    wait = "read -r -t 0.1 -u 9 _"
    script = (
        f"exec 9<> <(:); {idle}; for ((n = 0; n < 1800; n++)); do {condition} && exit; {wait}; done; exit 1"
    )
    done = node.run(script, "bash -s")
    assert done.returncode == 0, f"never: {condition}"


def run(node: Sandbox, change: Transaction) -> Result:
    started = node.run(start_script(change))
    assert started.returncode == 0, started.stderr
    return ended(node, change.id)


def deliver(node: Sandbox, change: Transaction) -> None:
    for name, text in change.files.items():
        file = node.path(f"{change.folder}/{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def run_by(node: Sandbox, interpreter: str, change: Transaction) -> Result:
    """Have a shell run a change that is confirmed; it complains about nothing."""
    deliver(node, change)
    when(node, "confirming", f"echo yes > {change.folder}/confirmed")
    done = node.run(f"{interpreter} {change.folder}/run.sh apply")
    assert "run.sh" not in done.stderr
    result = status(node).result
    assert result
    return result


def applied(node: Sandbox, change: Transaction) -> None:
    result = run(node, change)
    assert result.outcome == "applied", (result, node.path("/run/unit.log").read_text())


def has_files_open(node: Sandbox, pid: int) -> bool:
    return node.path(f"/proc/{pid}/fd").exists() and any(node.path(f"/proc/{pid}/fd").iterdir())


def reverted(node: Sandbox, reason: str, name: str = "T1") -> Result:
    done = node.run(revert_script(name, reason, status(node, name)))
    assert done.returncode == 0, done.stderr
    return ended(node, name)


def reboot(node: Sandbox) -> None:
    """Do what systemd does at boot: first what stands before the kubelet, then the kubelet."""
    if node.path(BOOT_LINK).is_symlink() and node.path(CURRENT).is_symlink():
        lines = node.path(BOOT_UNIT).read_text().splitlines()
        assert any(line.startswith("Before=") and "kubelet.service" in line for line in lines)
        started = node.run(next(line for line in lines if line.startswith("ExecStart=")).split("=", 1)[1])
        assert started.returncode == 0, started.stderr
    node.run("systemctl start kubelet.service")


def leftovers(node: Sandbox) -> list[Path]:
    """Return what a transaction leaves behind that is none of its records."""
    links = [node.path(path) for path in (CURRENT, BOOT_UNIT, BOOT_LINK)]
    folders = [node.path(path).parent for path in (DROP_IN, UNIT_DROP_IN, STATE, RECORD)]
    return [
        *(link for link in links if link.is_symlink() or link.exists()),
        *(path for folder in folders for path in folder.glob(".numaforge-*")),
        *(folder for folder in folders if folder.is_dir() and not any(folder.iterdir())),
    ]


# What systemd does on its way down: nothing can be started any more, everything is stopped.
GO_DOWN = ": > /run/stopping; systemctl stop kubelet.service\n"
END_UNIT = "kill -TERM $PPID\n"
