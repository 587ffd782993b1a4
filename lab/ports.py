"""Ports of this machine's loopback interface, reserved for as long as they are needed.

They lie below the range that the kernel hands out to clients, and are reserved in blocks: a process that has
bound the abstract unix socket of a block has its ports, and the loopback network that goes with them. The
kernel keeps such a name as it keeps ports: one per network namespace, the same for every user, until the last
process that has the socket open ends. Nothing is left to clean up, however a process ends.

A program that opens a port without reserving it is seen when it listens: its port is passed over, and
programs that find their port taken nevertheless are started again on others.
"""

from __future__ import annotations

import itertools
import random
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from lab.errors import LabError
from lab.progress import say

LOOPBACK = "127.0.0.1"
FIRST_PORT = 20000
PORTS_PER_BLOCK = 50
BLOCKS = 240
"""The last port is 31999; Linux gives clients those from 32768 on (net.ipv4.ip_local_port_range)."""
ATTEMPTS = 3

_TAKEN = ("address already in use", "could not set up host forwarding rule")
"""What Go's programs and OpenSSH complain of when a port is taken, and what QEMU does."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Reserved:
    """Ports that no other process reserves while `holder` is open, here or in a process that inherited it."""

    block: int
    ports: tuple[int, ...]
    """Those of the block on which nothing listened when it was reserved."""
    holder: socket.socket

    @property
    def network(self) -> str:
        """The first three numbers of the loopback addresses that are reserved with the ports."""
        return f"127.87.{self.block + 1}"

    def release(self) -> None:
        """Close this process's holder: others may reserve the ports once no process has it open."""
        self.holder.close()


def is_free(address: str, port: int) -> bool:
    """Say whether no program listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def reserve(suits: Callable[[Reserved], bool] = lambda found: bool(found.ports)) -> Reserved:
    """Return ports that no process has, and that suit; raise LabError where there are none."""
    for number in random.sample(range(BLOCKS), BLOCKS):
        found = reserve_block(number)
        if found is not None and suits(found):
            return found
        if found is not None:
            found.release()
    raise LabError(
        f"no block of ports from {FIRST_PORT} on can be reserved",
        remedy="`ss --listening --tcp --unix` shows what has them",
    )


def reserve_block(number: int) -> Reserved | None:
    """Return the ports of the block of that number, None where another process has it."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0numaforge-ports-{number}")
    except OSError:
        holder.close()
        return None
    first = FIRST_PORT + number * PORTS_PER_BLOCK
    block = range(first, first + PORTS_PER_BLOCK)
    return Reserved(number, tuple(port for port in block if is_free(LOOPBACK, port)), holder)


def started_on_free_ports(start: Callable[[], _Result], end: Callable[[], None]) -> _Result:
    """Start programs with `start`, which chooses their ports, and again where one finds its port taken.

    What has been started is ended with `end` before that, and before any failure or interrupt goes on.
    """
    for attempt in itertools.count(1):
        try:
            return start()
        except BaseException as failure:
            end()
            if attempt == ATTEMPTS or not finds_its_port_taken(failure):
                raise
            say(f"a port is taken by another program, starting on others: {failure}", colour=33)
    raise AssertionError("the loop has no other end")


def finds_its_port_taken(failure: BaseException) -> bool:
    """Say whether a program has complained that its port is taken."""
    return isinstance(failure, LabError) and any(words in str(failure).lower() for words in _TAKEN)


@dataclass
class _Own:
    """The ports of this process, given out one by one; blocks stay reserved until it ends."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    blocks: list[Reserved] = field(default_factory=list)
    unused: Iterator[int] = field(default_factory=lambda: iter(()))

    def take(self) -> int:
        with self.lock:
            while True:
                for port in self.unused:
                    if is_free(LOOPBACK, port):
                        return port
                self.blocks.append(reserve())
                self.unused = iter(self.blocks[-1].ports)


_OWN = _Own()


def reserved_port() -> int:
    """Return a port of loopback on which nothing listens, reserved until this process ends."""
    return _OWN.take()
