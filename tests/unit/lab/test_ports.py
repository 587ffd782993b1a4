"""Ports are reserved while their holder lives, and programs that find theirs taken start on others."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lab import ports
from lab.ports import LOOPBACK, is_free, reserve, reserve_block, reserved_port

HOLD = "from lab.ports import reserve; kept = reserve(); print(kept.block, flush=True); input()"


@pytest.fixture
def reserved():
    """The ports of a block of this process."""
    found = reserve()
    yield found
    found.release()


def listener(port: int) -> socket.socket:
    return socket.create_server((LOOPBACK, port))


def test_reserved_ports_are_exclusive(reserved):
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
    again.release()


def test_port_in_use_by_another_program_is_skipped(reserved):
    taken = reserved.ports[0]
    reserved.release()
    with listener(taken):
        again = reserve_block(reserved.block)
        again.release()
    assert taken not in again.ports
    assert len(again.ports) == len(reserved.ports) - 1


def test_ports_of_one_process_are_distinct():
    given = [reserved_port() for _ in range(2 * ports.PORTS_PER_BLOCK)]
    assert len(set(given)) == len(given)
    assert all(is_free(LOOPBACK, port) for port in given)


def test_ports_are_below_the_kernels_ephemeral_range():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert lowest >= ports.FIRST_PORT + ports.BLOCKS * ports.PORTS_PER_BLOCK
