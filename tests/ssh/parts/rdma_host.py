"""A module, settings of a NIC and the limit of a runtime."""

import re

from numaforge.change.transaction import Transaction
from numaforge.lib.file_content import FileContent
from numaforge.node.bundle import FileChange
from numaforge.roles.files import part as files
from numaforge.roles.host.memlock import part as memlock
from numaforge.roles.host.memlock.files import memlock_path
from numaforge.roles.modules import part as modules
from numaforge.roles.modules.files import MODULES_LOAD_PATH
from numaforge.roles.rdma.nics import part as nics
from numaforge.roles.rdma.nics.part import LINKS
from numaforge.roles.rdma.planned import NicSetting
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.parts.subject import Subject, start_service
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_rdma import ADDRESS, INTERFACE, install, loaded, read_request, standin_rdma
from tests.ssh.standin_systemd import DROP_IN, standin_systemd
from tests.ssh.transactions import leftovers

RUNTIME = "containerd.service"
ASKED = (
    NicSetting(ADDRESS, "max_read_request", "4096"),
    NicSetting(INTERFACE, "pfc", "3"),
    NicSetting(INTERFACE, "trust", "dscp"),
)


def start_node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node with a NIC whose container runtime and kubelet run with a limit of 64 KiB."""
    sandbox = start_sandbox({**machine(), **standin_rdma(standin_systemd(port)), DROP_IN: "old\n"})
    install(sandbox)
    sandbox.run("mkdir -p /run/services /run/systemd/system")
    sandbox.path(f"/run/services/{RUNTIME}").write_text("exec sleep 1000\n")
    sandbox.run(f"systemctl start {RUNTIME}; systemctl start kubelet.service; : > /run/systemctl.log")
    return sandbox


def settings(node: Sandbox) -> tuple[int, str, str]:
    """Return the read request, PFC and trust as the tools of the host tell them."""
    pfc = node.run(f"dcb pfc show dev {INTERFACE} prio-pfc").stdout
    trust = node.run(f"mlnx_qos -i {INTERFACE}").stdout
    return read_request(node), ",".join(re.findall(r"([0-7]):on", pfc)), trust.split()[-1]


OLD, NEW = (512, "", "pcp"), (4096, "3", "dscp")


def change(_port: int = 0, *, wish: str = "new") -> Transaction:
    written = [
        FileContent(memlock_path(RUNTIME), "[Service]\nLimitMEMLOCK=infinity\n"),
        FileContent(MODULES_LOAD_PATH, f"# {wish}\nib_umad\n"),
    ]
    return Transaction(
        "T1",
        (
            files.part([FileChange(file.path, None, file) for file in written]),
            modules.part(["ib_umad"], []),
            nics.part(ASKED, enabled=dict.fromkeys(LINKS, True)),
            memlock.part([RUNTIME], [RUNTIME]),
        ),
    )


def limit(node: Sandbox) -> str:
    pid = node.path(f"/run/active/{RUNTIME}").read_text().strip()
    text = node.run(f"cat /proc/{pid}/limits").stdout
    return next(line.split()[3] for line in text.splitlines() if line.startswith("Max locked memory"))


def assert_old(node: Sandbox) -> None:
    assert settings(node) == OLD
    assert loaded(node) == {"mlx5_core"}
    assert limit(node) == "65536"
    paths = (memlock_path(RUNTIME), MODULES_LOAD_PATH, nics.RECORD, modules.RECORD, *LINKS.values())
    assert [path for path in paths if node.path(path).exists() or node.path(path).is_symlink()] == []
    assert leftovers(node) == []


def assert_new(node: Sandbox) -> None:
    assert settings(node) == NEW
    assert loaded(node) == {"mlx5_core", "ib_core", "ib_umad"}
    assert limit(node) == "unlimited"
    assert node.path(modules.RECORD).read_text().splitlines()[1:] == ["ib_core", "ib_umad"]
    assert f"{ADDRESS} max_read_request 512" in node.path(nics.RECORD).read_text()
    assert leftovers(node) == []


SUBJECT = Subject(
    "rdma_host",
    start_node,
    change,
    assert_old,
    assert_new,
    forwards=(
        "apply nics",
        "keeping",
        "apply files",
        "apply modules",
        "apply memlock",
        "start memlock",
        "prove modules",
        "prove memlock",
    ),
    back=("undo nics", "undo memlock", "undo modules", "undo files", "start memlock"),
    at_boot=lambda node: start_service(node, RUNTIME),
)
