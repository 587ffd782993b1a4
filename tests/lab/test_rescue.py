"""A boot that ends in emergency mode because of a change: real systemd, real modules."""

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.change.transaction import RESCUE_UNIT, Transaction
from numaforge.lib.file_content import FileContent
from numaforge.roles.modules import part as modules
from numaforge.roles.modules.files import MODPROBE_PATH
from numaforge.roles.reboot import part as reboot
from tests.fixtures.tables import cases
from tests.lab import transactions
from tests.lab.transactions import STATIC, boots, put_back, ready, seen, until

IMAGE, PLACE, TYPE = "/var/tmp/disk.img", "/mnt/disk", "minix"
MOUNTED = f"""
truncate -s 4M {IMAGE} && mkfs.{TYPE} {IMAGE} > /dev/null && mkdir -p {PLACE}
echo '{IMAGE} {PLACE} {TYPE} loop 0 0' >> /etc/fstab
systemctl daemon-reload && mount {PLACE} && sync
"""
"""A file system of a module of its own, without which a boot ends in emergency mode."""
KEPT_OUT = FileContent(MODPROBE_PATH, f"blacklist {TYPE}\ninstall {TYPE} /bin/false\n")
UNMOUNTABLE = "/dev/disk/by-label/none /mnt/none ext4 x-systemd.device-timeout=5s 0 0\n"


@pytest.fixture
def fresh(lab: Lab) -> Node:
    node = put_back(lab)
    node.run(MOUNTED)
    return node


def forced(node: Node, *written: FileContent) -> Transaction:
    """Describe a change that no look would let through."""
    late = modules.part([], [], [f"blocked {TYPE}" if KEPT_OUT in written else "blocked floppy"])
    return transactions.change(node, STATIC, *written, between=(late, reboot.part()))


def came_back(lab: Lab, node: Node, before: str) -> None:
    assert boots(node) == 2, node.run("journalctl -u 'numaforge-*' --no-pager | tail -n 50")
    ready(lab, node)
    assert seen(node) == before
    assert node.run(f"findmnt -n -o FSTYPE {PLACE}").strip() == TYPE
    assert node.run(f"ls {MODPROBE_PATH} {RESCUE_UNIT} 2> /dev/null; true") == ""
    until(node, "systemctl is-active --quiet multi-user.target")


@pytest.mark.long
@cases(
    "spoil",
    {
        "the-module-of-a-mounted-file-system-is-kept-out": KEPT_OUT,
        "a-file-system-that-a-boot-mounts-is-not-there": "fstab",
    },
)
def test_boot_into_emergency_mode_is_undone_automatically(lab, fresh, spoil):
    before = seen(fresh)
    fstab = FileContent("/etc/fstab", fresh.run("cat /etc/fstab") + UNMOUNTABLE)
    result = transactions.run(fresh, forced(fresh, spoil if isinstance(spoil, FileContent) else fstab))
    assert (result.outcome, result.reason.split(" (")[0]) == (
        "rolled-back",
        "the boot ended in emergency or rescue mode",
    ), result
    came_back(lab, fresh, before)
    assert UNMOUNTABLE not in fresh.run("cat /etc/fstab")
