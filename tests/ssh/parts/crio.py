"""CRI-O that reads a drop-in."""

from numaforge.change.transaction import Transaction
from numaforge.lib.file_content import FileContent
from numaforge.machine.topology.runtime import CRIO
from numaforge.node.bundle import FileChange
from numaforge.roles.crio import part as crio
from numaforge.roles.crio.files import CRIO_PATH
from numaforge.roles.files import part as files
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.parts.subject import Subject, start_service
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import DROP_IN, notifying, standin_systemd
from tests.ssh.transactions import leftovers, until

HANDLER = "[crio.runtime.runtimes.high-performance]\n"
RUNNING = "/run/crio.conf"  # what the stand-in has read when it started
PROGRAM = f"""#!/bin/sh
[ "$*" = "status config" ] && cat {RUNNING}
"""
SERVICE = notifying(f"cat /etc/crio/crio.conf.d/* > {RUNNING} 2> /dev/null")


def start_node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node whose CRI-O runs with what it has read."""
    sandbox = start_sandbox(
        {**machine(), **standin_systemd(port), DROP_IN: "old\n", "/usr/local/bin/crio": PROGRAM}
    )
    sandbox.run("mkdir -p /run/services /run/broken /run/when /run/systemd/system")
    sandbox.path(f"/run/services/{CRIO}").write_text(SERVICE)
    sandbox.run(f"systemctl start {CRIO}; systemctl start kubelet.service; : > /run/systemctl.log")
    return sandbox


def change(_port: int = 0, text: str = HANDLER) -> Transaction:
    written = FileChange(CRIO_PATH, None, FileContent(CRIO_PATH, text))
    return Transaction("T1", (files.part([written]), crio.part(there=True, drains=False)))


def read(node: Sandbox) -> str:
    until(node, f"[ -e {RUNNING} ]")
    return node.path(RUNNING).read_text()


def restarts(node: Sandbox) -> int:
    return node.path("/run/systemctl.log").read_text().splitlines().count(f"restart {CRIO}")


def assert_old(node: Sandbox) -> None:
    assert not node.path(CRIO_PATH).exists()
    assert read(node) == ""
    assert node.run(f"systemctl is-active {CRIO}").stdout.strip() == "active"
    assert leftovers(node) == []


def assert_new(node: Sandbox) -> None:
    assert read(node) == HANDLER
    assert leftovers(node) == []


SUBJECT = Subject(
    "crio",
    start_node,
    change,
    assert_old,
    assert_new,
    forwards=("apply files", "keeping", "apply crio", "start crio", "prove crio"),
    back=("undo crio", "undo files", "start crio"),
    at_boot=lambda node: start_service(node, CRIO),
)
