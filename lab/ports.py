"""Ports of this machine's loopback interface that nobody has taken."""

from __future__ import annotations

import random
import socket

from lab.errors import LabError

LOOPBACK = "127.0.0.1"


def is_free(address: str, port: int) -> bool:
    """Say whether nobody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return free ports below the range that the kernel hands out to clients."""
    candidates = random.sample(range(20000, 32000), 400)
    free = [port for port in candidates if is_free(LOOPBACK, port)]
    if len(free) < count:
        raise LabError(f"fewer than {count} free ports between 20000 and 32000 on {LOOPBACK}")
    return free[:count]
