"""Ports are reserved while their holder lives, and programs that find theirs taken start on others."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lab import ports
from lab.errors import LabError
from lab.ports import (
    LOOPBACK,
    Reserved,
    is_free,
    reserve,
    reserve_block,
    reserved_port,
    started_on_free_ports,
)
from lab.process import Daemon, living

HOLD = "from lab.ports import reserve; kept = reserve(); print(kept.block, flush=True); input()"


@pytest.fixture
def reserved():
    """The ports of a block of this process."""
    found = reserve()
    yield found
    found.release()


def listener(port: int) -> socket.socket:
    return socket.create_server((LOOPBACK, port))


def test_reserved_ports_are_nobody_elses(reserved):
    asked = f"from lab.ports import reserve_block; print(reserve_block({reserved.block}))"
    answer = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert answer.stdout == "None\n"


def test_a_killed_process_leaves_no_reservation():
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    block = int(holder.stdout.readline())
    assert reserve_block(block) is None
    holder.kill()
    holder.communicate()
    again = reserve_block(block)
    assert again is not None
    again.release()


def test_a_process_that_inherits_the_holder_keeps_the_ports(tmp_path, reserved):
    heir = Daemon("heir", tmp_path)
    heir.start(
        [sys.executable, "-IS", "-c", "import signal; signal.pause()", str(tmp_path)],
        standard_input=reserved.holder.fileno(),
    )
    reserved.release()
    assert reserve_block(reserved.block) is None
    heir.stop(grace_s=0)
    again = reserve_block(reserved.block)
    assert again is not None
    again.release()


def test_a_port_on_which_a_stranger_listens_is_passed_over(reserved):
    taken = reserved.ports[0]
    reserved.release()
    with listener(taken):
        again = reserve_block(reserved.block)
        assert again is not None
        again.release()
    assert taken not in again.ports
    assert len(again.ports) == len(reserved.ports) - 1


def test_no_two_ports_of_one_process_are_the_same():
    given = [reserved_port() for _ in range(2 * ports.PORTS_PER_BLOCK)]
    assert len(set(given)) == len(given)
    assert all(is_free(LOOPBACK, port) for port in given)


def test_ports_lie_below_those_that_the_kernel_gives_to_clients():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert lowest >= ports.FIRST_PORT + ports.BLOCKS * ports.PORTS_PER_BLOCK


class Server:
    """A daemon that listens on a port reserved for it, which a stranger may have taken."""

    def __init__(self, state, strangers: int) -> None:
        self.daemon = Daemon("server", state)
        self.strangers = [True] * strangers
        self.sockets: list[socket.socket] = []
        self.tried: list[int] = []
        self.reserved: Reserved | None = None

    def start(self) -> int:
        self.reserved = reserve()
        port = self.reserved.ports[0]
        self.tried.append(port)
        if self.strangers:
            self.strangers.pop()
            self.sockets.append(listener(port))
        code = f"import socket, time; kept = socket.create_server(('{LOOPBACK}', {port}))"
        wait = "print('up', flush=True); time.sleep(600)"
        self.daemon.start([sys.executable, "-c", f"{code}; {wait}", str(self.daemon.state)])
        while "up" not in self.daemon.log.read_text():
            self.daemon.require_alive()
        return port

    def end(self) -> None:
        self.daemon.stop(grace_s=0)
        self.daemon.log.unlink()
        assert self.reserved is not None
        self.reserved.release()


@pytest.mark.parametrize("strangers", [0, 1, 2])
def test_a_program_that_finds_its_port_taken_starts_on_another(tmp_path, strangers):
    server = Server(tmp_path, strangers)
    port = started_on_free_ports(server.start, server.end)
    assert len(set(server.tried)) == strangers + 1
    assert not is_free(LOOPBACK, port)
    server.end()


def test_strangers_on_every_port_are_an_error_that_leaves_no_process(tmp_path):
    server = Server(tmp_path, strangers=9)
    with pytest.raises(LabError, match="Address already in use"):
        started_on_free_ports(server.start, server.end)
    assert len(server.tried) == ports.ATTEMPTS
    assert living(tmp_path) == {}


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(LabError("out of memory"), id="another failure"),
        pytest.param(KeyboardInterrupt(), id="an interrupt"),
    ],
)
def test_what_has_been_started_ends_and_is_not_started_again_after(failure):
    done = []

    def start() -> None:
        done.append("start")
        raise failure

    with pytest.raises(type(failure)):
        started_on_free_ports(start, lambda: done.append("end"))
    assert done == ["start", "end"]
