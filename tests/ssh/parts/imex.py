"""A tray whose IMEX daemon is the driver's or the host's."""

import re
from dataclasses import replace

from numaforge.change.transaction import Transaction
from numaforge.roles.imex import part as imex
from numaforge.roles.imex.part import RECORD
from numaforge.roles.imex.plan import ImexPlan
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.parts.subject import Subject, start_service
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_imex import CONFIG, NODES, PACKAGES_CONFIG, UNIT, install_imex, standin_imex
from tests.ssh.standin_systemd import DROP_IN, standin_systemd
from tests.ssh.transactions import leftovers, until

SOCKET = "/var/run/nvidia-imex-ctrl.sock"
MASK = f"/etc/systemd/system/{UNIT}"
WANT = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
TRAYS = ("10.0.0.11", "10.0.0.12")
DRIVER = ImexPlan("driver-managed")
HOST = ImexPlan("host-managed", TRAYS, SOCKET)
BARE = ImexPlan("bare", TRAYS)


def start_node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A tray whose image has nvidia-imex, enabled and running for a list of one node, and a kubelet."""
    sandbox = start_sandbox({**machine(), **standin_systemd(port), **standin_imex(), DROP_IN: "old\n"})
    install_imex(sandbox)
    sandbox.path(NODES).write_text("# by the image\n10.0.0.1\n")
    sandbox.run(
        f"mkdir -p /run/when /run/systemd/system {WANT.rpartition('/')[0]}; "
        f"ln -s /usr/lib/systemd/system/{UNIT} {WANT}; "
        f"systemctl start kubelet.service; systemctl start {UNIT}; : > /run/systemctl.log"
    )
    until(sandbox, "[ -e /run/imex.log ]")
    return sandbox


def change(plan: ImexPlan, name: str = "T1") -> Transaction:
    return Transaction(name, (imex.part(plan, {"unit": "enabled", "active": "yes"}),))


def state(node: Sandbox) -> tuple[str, bool]:
    """Return how the unit starts, and whether it runs."""
    masked = node.path(MASK).is_symlink()
    unit = "masked" if masked else "enabled" if node.path(WANT).is_symlink() else "disabled"
    return unit, node.path(f"/run/active/{UNIT}").exists()


def assert_old(node: Sandbox) -> None:
    assert (state(node), node.path(CONFIG).read_text()) == (("enabled", True), PACKAGES_CONFIG)
    assert node.path(NODES).read_text() == "# by the image\n10.0.0.1\n"
    assert not node.path(RECORD).exists()
    assert leftovers(node) == []


def keys(node: Sandbox) -> dict[str, str]:
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", node.path(CONFIG).read_text(), re.MULTILINE))


def assert_new(node: Sandbox) -> None:
    assert state(node) == ("enabled", True)
    assert keys(node) == {
        "LOG_LEVEL": "4",
        "SERVER_PORT": "50000",
        "IMEX_CMD_ENABLED": "1",
        "IMEX_CMD_UNIX_DOMAIN_PATH": SOCKET,
        "IMEX_NODE_CONFIG_FILE": NODES,
        "LOG_FILE_NAME": "/var/log/nvidia-imex.log",
    }
    assert node.path(CONFIG).read_text().startswith("# the package's own\n")
    until(node, f"grep -qx {','.join(TRAYS)} /run/imex.log")


def assert_masked(node: Sandbox) -> None:
    assert state(node) == ("masked", False)
    assert node.path(CONFIG).read_text() == PACKAGES_CONFIG


def start_enabled(node: Sandbox) -> None:
    """Start the daemon with a boot, but for one that is masked."""
    if not node.path(MASK).is_symlink():
        start_service(node, UNIT)


SUBJECT = Subject(
    "imex",
    start_node,
    lambda _port: change(HOST),
    assert_old,
    assert_new,
    forwards=("apply imex", "keeping", "stop imex", "start imex", "prove imex"),
    back=("undo imex", "start imex"),
    at_boot=start_enabled,
)
MASKED = replace(SUBJECT, name="imex-masked", change=lambda _port: change(DRIVER), assert_new=assert_masked)
