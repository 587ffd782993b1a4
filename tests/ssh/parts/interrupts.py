"""Interrupts and daemons that go to the reserved CPUs."""

import json

from numaforge.change.transaction import Transaction
from numaforge.roles.cpus.slices import part as system
from numaforge.roles.interrupts import part as interrupts
from numaforge.roles.interrupts.plan import InterruptsPlan
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.parts.subject import Subject, start_service
from tests.ssh.sandbox import Sandbox
from tests.ssh.site_runs import text
from tests.ssh.standin_devices import (
    DEFAULT,
    INTERRUPTS,
    IRQBALANCE_FILE,
    NIC,
    RPS,
    SLICES,
    WORKQUEUES,
    affinity,
    devices,
    effective,
    install,
)
from tests.ssh.standin_systemd import standin_systemd


def start_node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    sandbox = start_sandbox({**machine(), **devices(), **standin_systemd(port)})
    sandbox.run("rm /usr/local/bin/kubelet; mkdir -p /run/when /run/systemd/system")
    install(sandbox)
    sandbox.path(BEFORE).write_text(json.dumps(state(sandbox)))
    return sandbox


def state(node: Sandbox) -> dict[str, str]:
    paths = [
        *(affinity(number) for numbers in INTERRUPTS.values() for number in numbers),
        *(effective(name) for name in SLICES),
        *(DEFAULT, WORKQUEUES, RPS, IRQBALANCE_FILE),
    ]
    return {path: text(node, path) for path in paths}


BEFORE = "/run/before.json"

PLAN = InterruptsPlan(devices={NIC: frozenset({0, 4})}, irqbalance="reserved", banned=frozenset({1}))
BLOCK = ("# numaforge begin", "IRQBALANCE_BANNED_CPULIST=1", "# numaforge end")


def change(_port: int = 0) -> Transaction:
    slices = {"system.slice": ("", "0,4")}
    parts = (
        interrupts.part(PLAN, ["moves"], block=BLOCK, file=IRQBALANCE_FILE, verb="restart"),
        system.part(slices, {"system.slice": "0,4"}, {"system.slice": ""}),
    )
    return Transaction("T1", parts)


def before(node: Sandbox) -> dict[str, str]:
    """Return the state in which the node was started."""
    return dict(json.loads(node.path(BEFORE).read_text()))


def assert_old(node: Sandbox) -> None:
    assert state(node) == before(node)
    assert not node.path(interrupts.BOOT_LINK).is_symlink()


def assert_new(node: Sandbox) -> None:
    assert text(node, affinity(30)) == "0,4"
    assert text(node, "/etc/numaforge/slices").splitlines()[1:] == ["system.slice"]


def at_boot(node: Sandbox) -> None:
    """Have the kernel set its own affinities, and systemd start irqbalance; what is below /run is gone."""
    for path, value in before(node).items():
        if path != IRQBALANCE_FILE:
            node.path(path).write_text(f"{value}\n")
    node.run("rm -rf /run/numaforge /run/systemd/system.control /run/slices")
    start_service(node, "irqbalance.service")


SUBJECT = Subject(
    "interrupts",
    start_node,
    change,
    assert_old,
    assert_new,
    forwards=("apply interrupts", "keeping", "apply system", "prove interrupts", "prove system"),
    back=("undo interrupts", "undo system"),
    at_boot=at_boot,
)
