"""Files, values of the kernel, pools and the kubelet, in one boot or with a boot in between."""

import json
from dataclasses import replace

from numaforge.roles.kernel_values.part import RECORD
from tests.ssh import reboots
from tests.ssh.parts.subject import Subject
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import DROP_IN, STATE
from tests.ssh.transactions import (
    LARGE,
    MEMORY_STATE,
    SMALL,
    SWAPPINESS,
    UNIT_DROP_IN,
    leftovers,
    node_with_kubelet,
    pages,
    process,
    transaction,
)


def assert_old(node: Sandbox) -> None:
    assert node.path(DROP_IN).read_text() == "old\n"
    assert not node.path(UNIT_DROP_IN).exists()
    assert json.loads(node.path(STATE).read_text())["writtenUnder"] == "old\n"
    assert node.path(MEMORY_STATE).read_text() == "memory as it was\n"
    assert pages(node) == {LARGE: 1, SMALL: 512}
    found = node.path(MEMORY_STATE).stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o600, 4001, 4002)
    assert leftovers(node) == []
    assert node.path(SWAPPINESS).read_text() == "60\n"
    assert not node.path(RECORD).exists()
    assert process(node).pid


def assert_new(node: Sandbox) -> None:
    assert node.path(DROP_IN).read_text() == "new\n"
    assert node.path(UNIT_DROP_IN).stat().st_mode & 0o777 == 0o600
    assert json.loads(node.path(STATE).read_text())["writtenUnder"] == "new\n"
    assert node.path(MEMORY_STATE).read_text() == "memory as it was\n"
    assert pages(node) == {LARGE: 2, SMALL: 16}
    assert leftovers(node) == []
    assert node.path(RECORD).read_text().splitlines()[1:] == [f"{SWAPPINESS}\t60\t10"]
    assert process(node).pid


SUBJECT = Subject(
    "kubelet",
    node_with_kubelet,
    lambda port: replace(transaction(port, "new"), confirm_seconds=30),
    assert_old,
    assert_new,
    forwards=(
        "apply files",
        "keeping",
        "stop kubelet",
        ".numaforge-0",
        "apply kernel_values",
        ".numaforge-new",
        "apply hugepages",
        "apply kubelet",
        "start kubelet",
        "prove kubelet",
        "prove kubelet again",
        "confirming",
    ),
    back=("undo kubelet", "undo hugepages", "undo kernel_values", "undo files"),
    cuts=("power", "reboot", "kubelet-first"),
    before_kubelet=reboots.assert_whole,
)
WITH_A_BOOT = Subject(
    "kubelet-with-a-boot",
    reboots.bootable_node,
    reboots.change,
    reboots.assert_old,
    reboots.assert_new,
    forwards=reboots.FORWARDS,
    back=reboots.BACK,
    cuts=("power", "reboot", "soft-reboot"),
    before_kubelet=reboots.assert_whole,
)
