"""A lab that does not come up ends what it has started, and starts on other ports where one is taken."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from lab.cluster import Lab
from lab.errors import LabError
from lab.kwok import Fleet
from lab.paths import REPOSITORY
from lab.ports import LOOPBACK, reserve
from lab.process import living


class Strangers:
    """Reserves ports, of which a program that reserves nothing listens on one: the etcd peers' port."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.blocks: list[int] = []
        self.listening: list[socket.socket] = []

    def __call__(self, suits):
        found = reserve(suits)
        self.blocks.append(found.block)
        if self.left:
            self.left -= 1
            self.listening.append(socket.create_server((LOOPBACK, found.ports[2])))
        return found


def test_control_plane_with_busy_port_starts_on_other_ports(tmp_path):
    strangers = Strangers(1)
    with Fleet(tmp_path / "fleet", choose=strangers) as fleet:
        assert len(strangers.blocks) == 2
        fleet.add_nodes(1)
    assert living(fleet.state) == {}


def test_control_plane_without_a_free_port_leaves_no_process(tmp_path):
    fleet = Fleet(tmp_path / "fleet", choose=Strangers(99))
    with pytest.raises(LabError, match="address already in use"):
        fleet.__enter__()
    assert living(fleet.state) == {}


def test_failed_control_plane_start_leaves_no_node_running(tmp_path):
    lab = Lab(tmp_path / "lab", choose=Strangers(99))
    with pytest.raises(LabError, match="address already in use"):
        lab.up(1, boot=True)
    assert living(lab.state) == {}
    assert lab.status() == {"running": False, "processes": {}}


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_lab_interrupted_during_start_leaves_no_process(tmp_path, number):
    state = tmp_path / "lab"
    up = subprocess.Popen(
        [sys.executable, "-m", "lab", "up", "--boot"],
        cwd=REPOSITORY,
        env=os.environ | {"NUMAFORGE_LAB_DIR": str(state)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert up.stderr is not None
    for line in up.stderr:
        if "wait until every node is Ready" in line:
            break
    assert any(name.startswith("qemu") for name in living(state).values())
    up.send_signal(number)
    up.communicate()
    assert up.returncode == 128 + number
    assert living(state) == {}
