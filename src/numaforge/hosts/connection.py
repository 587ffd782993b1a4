"""Connections to a host: without delays, limited in time, and reopened after a break."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gevent import Timeout  # type: ignore[import-untyped]
from paramiko import SSHClient, SSHException, Transport
from paramiko.packet import Packetizer
from pyinfra.api import Host
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.sshuserclient.client import get_ssh_config

from numaforge.errors import HostUnreachableError
from numaforge.rollout.same_machine import PIN, Access

CUT = "the connection was cut"
# A host that goes down resets each attempt to reach it: paramiko logs a traceback for every one, and we
# report the result ourselves.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_KEEPALIVE_SECONDS = 15
_WAKE_SECONDS = 2.0
_SILENT_SECONDS = 45  # with the keepalive: a dead connection is noticed within a minute
_CHANNEL_SECONDS = 60  # paramiko would wait an hour for a host to open a channel
_HANG_UP_SECONDS = 5  # a connection through a host that does not answer is closed through that host


class _AtOnce(Packetizer):
    """Acknowledges arriving data at once.

    sshd leaves Nagle's algorithm on without a terminal: the second part of its output waits for the
    acknowledgement of the first, which Linux delays by 40 ms where no data are sent back.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._acknowledges = sock

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read n bytes; the kernel resets TCP_QUICKACK after each answer of ours."""
        read = super().read_all(n, check_rekey)
        with suppress(OSError):  # it has ended
            self._acknowledges.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return read


def transport(sock: Any, **options: Any) -> Transport:
    """Return the transport of SSH: both sides send at once, and a dead connection is noticed.

    Small messages of both sides would wait for acknowledgements, 40 ms in each command and twice in a login.
    Keepalives detect connections that have silently died: paramiko expects no answer to them, but the kernel
    ends a connection that does not acknowledge them. The check for a closed connection runs every two
    seconds, not ten times a second: with a thousand connections that alone takes a core. Data, and the end
    of a connection, are noticed at once.

    Behind a ProxyJump or a ProxyCommand there is no socket of ours.
    """
    is_socket = isinstance(sock, socket.socket)
    quick = is_socket and hasattr(socket, "TCP_QUICKACK")  # Linux has it
    made = Transport(sock, packetizer_class=_AtOnce if quick else None, **options)
    made.set_keepalive(_KEEPALIVE_SECONDS)
    made.channel_timeout = _CHANNEL_SECONDS  # type: ignore[attr-defined] # missing in the stubs
    if is_socket:
        sock.settimeout(_WAKE_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_SECONDS * 1000)
    return made


def is_open(host: Host) -> bool:
    """Return whether the host's SSH connection is still open, as far as this side knows."""
    transport = _transport(host)
    return transport is not None and transport.is_active()


def access_to(host: Host) -> Access:
    """Return how a host is reached: the address of its connection, and the dialled name.

    Behind a ProxyJump or a ProxyCommand no socket of ours leads to it: then the address is what the dialled
    name resolves to here, if it does.
    """
    if isinstance(host.connector, LocalConnector):
        return Access(host.name, here=True)
    dialled = str(host.data.get("ssh_hostname") or host.name)
    config = get_ssh_config(host.data.get("ssh_config_file"))
    names = [dialled, str(config.lookup(dialled).get("hostname", dialled)) if config else dialled]
    return Access(
        host=host.name,
        pin=str(host.data.get(PIN) or ""),
        addresses=_peer(host) or tuple(dict.fromkeys(each for name in names for each in _resolved(name))),
        names=tuple(dict.fromkeys(names)),
    )


def _peer(host: Host) -> tuple[str, ...]:
    """Return the address of the other end of a host's own socket, () where there is none."""
    transport = _transport(host)
    if transport is None or not isinstance(transport.sock, socket.socket):
        return ()
    with suppress(OSError):  # it has ended
        peer = transport.sock.getpeername()
        return (str(peer[0]),) if isinstance(peer, tuple) else ()
    return ()


def _resolved(name: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _transport(host: Host) -> Transport | None:
    client: SSHClient | None = getattr(host.connector, "client", None)
    return client.get_transport() if client else None


@contextmanager
def within(host: Host, seconds: int) -> Iterator[None]:
    """Limit a call of a host to `seconds`, whatever it waits for; then raise HostUnreachableError."""
    limit = Timeout(seconds)  # interrupts code patched by gevent, as all of a pyinfra run is
    try:
        with limit:
            yield
    except Timeout as expired:
        hang_up(host)
        if expired is not limit:
            raise
        raise HostUnreachableError(
            f"the host does not answer: no answer within {seconds} s", where=host.name
        ) from None


def hang_up(host: Host) -> None:
    """Drop a broken connection without waiting for the host, so that the next call opens a new one."""
    _close(host.connector)  # first: pyinfra cleans up over a connection that still seems open
    with Timeout(_HANG_UP_SECONDS, False), suppress(SSHException, OSError, EOFError):
        host.disconnect()
    host.connected = False


@contextmanager
def new_connection(host: Host) -> Iterator[BaseConnector]:
    """Open a second connection to a host, with the same data, and hang up afterwards.

    Only SSH has connections: any other connector is used as it is.
    """
    if not isinstance(host.connector, SSHConnector):
        yield host.connector
        return
    connector = SSHConnector(host.state, host)
    try:
        connector.connect()
        yield connector
    finally:
        _close(connector)


def _close(connector: BaseConnector) -> None:
    client: SSHClient | None = getattr(connector, "client", None)
    with Timeout(_HANG_UP_SECONDS, False), suppress(SSHException, OSError, EOFError):
        if client is not None:
            client.close()
