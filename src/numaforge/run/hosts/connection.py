"""Connections to a host: without delays, limited in time, and reopened after a break."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gevent import Timeout  # type: ignore[import-untyped]
from paramiko import SSHClient, SSHException, Transport
from pyinfra.api import Host
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.local import LocalConnector

from numaforge.lib.errors import HostUnreachableError
from numaforge.rollout.same_machine import PIN, Access
from numaforge.run.hosts.connector import OpenSshConnector, destination

CUT = "the connection was cut"
_HANG_UP_SECONDS = 5  # a connection through a host that does not answer is closed through that host


def is_open(host: Host) -> bool:
    """Return whether the host's SSH connection is open, as far as this side knows."""
    transport = _transport(host)
    return transport is not None and transport.is_active()


def access_to(host: Host) -> Access:
    """Return how a host is reached: by its connection's address, else (ProxyJump) the dialled name's."""
    if isinstance(host.connector, LocalConnector):
        return Access(host.name, here=True)
    dialled = destination(host) if isinstance(host.connector, OpenSshConnector) else None
    names = [dialled.name, dialled.host] if dialled else [host.name]
    return Access(
        host=host.name,
        pin=str(host.data.get(PIN) or ""),
        addresses=_peer(host)
        or tuple(dict.fromkeys(address for name in names for address in _resolved(name))),
        names=tuple(dict.fromkeys(names)),
    )


def _peer(host: Host) -> tuple[str, ...]:
    """Return the peer address of a host's own socket, () without one."""
    transport = _transport(host)
    if transport is None or not isinstance(transport.sock, socket.socket):
        return ()
    with suppress(OSError):  # it has ended
        peer = transport.sock.getpeername()
        return (str(peer[0]),) if isinstance(peer, tuple) else ()  # a jump host's socket has no such address
    return ()


def _resolved(name: str) -> tuple[str, ...]:
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(address[0]) for *_, address in entries))


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
    """Open a second connection to a host for the block; only SSH has one, others are used as they are."""
    if not isinstance(host.connector, OpenSshConnector):
        yield host.connector
        return
    connector = OpenSshConnector(host.state, host)
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
