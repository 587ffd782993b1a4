"""The transport of SSH: both sides send at once, and a dead connection is noticed."""

from __future__ import annotations

import logging
import socket
from typing import Any

from paramiko import Transport
from paramiko.packet import Packetizer

# A host that goes down resets each attempt to reach it: paramiko logs a traceback for every one, and we
# report the result ourselves.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_KEEPALIVE_SECONDS = 15
_WAKE_SECONDS = 2.0
_SILENT_SECONDS = 45  # with the keepalive: a dead connection is noticed within a minute
_CHANNEL_SECONDS = 60  # paramiko would wait an hour for a host to open a channel


class _AtOnce(Packetizer):
    """Acknowledges arriving data at once.

    sshd leaves Nagle's algorithm on without a terminal: the second part of its output waits for the
    acknowledgement of the first, which Linux delays by 40 ms where no data are sent back.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._acknowledges = sock

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read n bytes; the kernel resets TCP_QUICKACK after each of our answers."""
        read = super().read_all(n, check_rekey)
        try:  # noqa: SIM105 (forty times in a login)
            self._acknowledges.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        except OSError:  # it has ended
            pass
        return read


class HostTransport(Transport):
    """paramiko's transport with our sockets' options, which asks for `host_keys`, types of keys, in order.

    Small messages of both sides would wait for acknowledgements, 40 ms in each command and twice in a login.
    Keepalives detect connections that have silently died: paramiko expects no answer to them, but the kernel
    ends a connection that does not acknowledge them. The check for a closed connection runs every two
    seconds, not ten times a second: with a thousand connections that alone takes a core. Data, and the end
    of a connection, are noticed at once.
    """

    host_keys: tuple[str, ...] = ()

    def __init__(self, sock: socket.socket, **options: Any) -> None:
        over_tcp = sock.family != socket.AF_UNIX  # a jump host's socket is one of this machine
        quick = over_tcp and hasattr(socket, "TCP_QUICKACK")  # Linux has it
        super().__init__(sock, packetizer_class=_AtOnce if quick else None, **options)
        self.set_keepalive(_KEEPALIVE_SECONDS)
        self.channel_timeout = _CHANNEL_SECONDS
        sock.settimeout(_WAKE_SECONDS)
        if over_tcp:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_SECONDS * 1000)

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """The types of host keys to ask for; paramiko would put certificates last."""
        return self.host_keys or tuple(super().preferred_keys)
