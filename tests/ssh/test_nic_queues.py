"""The number of a NIC's queues over a real sshd: set, kept over a boot, put back, refused where too many."""

import re
from pathlib import Path

import pytest

from numaforge.roles.rdma.nics import part as nics
from numaforge.roles.rdma.nics.files import NICS_PATH
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.rdma_hosts import BARE
from tests.ssh.sandbox import Sandbox, pyinfra
from tests.ssh.standin_rdma import INTERFACE, install, standin_rdma

pytestmark = pytest.mark.core(
    "test_dropping_the_setting_restores_the_queue_count",
    "test_more_queues_than_the_nic_has_are_refused_before_any_change",
)
QUEUES = {**BARE, "nic_queues": {"combined": "reserved", "nics": [INTERFACE]}}


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    """A host with a NIC that has a queue for each of 63 CPUs, and without a kubelet."""
    sandbox = start_sandbox({**machine(), **standin_rdma()})
    install(sandbox)
    return sandbox


def run(node: Sandbox, folder: Path, profile: object, *arguments: str) -> tuple[int, str]:
    hosts = {"node": {**node.data(), "numaforge_profile": profile}}
    done = pyinfra(folder, hosts, *(arguments or ("-y",)), "deploys/rdma.py")
    return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


def queues(node: Sandbox) -> str:
    return node.run(f"ethtool -l {INTERFACE} | tail -n 1").stdout.split()[-1]


def test_one_queue_per_reserved_cpu(node: Sandbox, tmp_path: Path) -> None:
    code, output = run(node, tmp_path, QUEUES)
    assert code == 0, output
    assert queues(node) == "4"
    assert f"{INTERFACE} channels 63" in node.path(nics.RECORD).read_text()
    assert "noop: the node is already as planned" in run(node, tmp_path, QUEUES, "-y", "-v")[1]


def test_dropping_the_setting_restores_the_queue_count(node: Sandbox, tmp_path: Path) -> None:
    run(node, tmp_path, QUEUES)
    code, output = run(node, tmp_path, BARE)
    assert code == 0, output
    assert queues(node) == "63"
    assert not node.path(nics.RECORD).exists()
    assert not node.path(NICS_PATH).exists()


def test_more_queues_than_the_nic_has_are_refused_before_any_change(node: Sandbox, tmp_path: Path) -> None:
    wish = {**BARE, "nic_queues": {"combined": 64, "nics": [INTERFACE]}}
    code, output = run(node, tmp_path, wish)
    assert code == 1
    assert "has 63 combined channels at most, and 64 are planned" in output
    assert "set nic_queues.combined: 63" in output
    assert not node.path(NICS_PATH).exists()


def test_driver_without_combined_channels_is_skipped_and_reported(node: Sandbox, tmp_path: Path) -> None:
    node.run(f"mkdir /run/without-channels; touch /run/without-channels/{INTERFACE}")
    code, output = run(node, tmp_path, QUEUES)
    assert code == 0, output
    assert f"left alone: channels of {INTERFACE}, which takes ethtool" in output
