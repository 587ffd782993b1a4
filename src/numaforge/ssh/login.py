"""Log in to a host: its key is checked, ours are tried in OpenSSH's order, and a failure is one message."""

import logging
import shlex
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from paramiko import AuthenticationException, BadAuthenticationType, PKey, SSHClient, SSHException, Transport
from paramiko.agent import AgentRequestHandler
from paramiko.packet import Packetizer
from paramiko.ssh_exception import IncompatiblePeer

from numaforge.lib.errors import HostError, HostRefusedError, HostUnreachableError
from numaforge.ssh.hops import cut, dial
from numaforge.ssh.identities import identities, identity
from numaforge.ssh.known_hosts import KnownKeys
from numaforge.ssh.openssh import CHECKING, Destination, defaults

_BANNER_SECONDS = 15
_TIMEOUT = "timeout"  # in paramiko's words
_KEYS_OF_A_LIMIT = 2
"""Below so many keys a connection that is cut has not met the host's MaxAuthTries: the host has gone."""
_ALGORITHMS = {"ciphers": "ciphers", "macs": "digests", "kexalgorithms": "kex"}
"""ssh_config's keywords for algorithms, and paramiko's names of the same."""
_NOT_OBEYED = ("GSSAPIAuthentication", "HostbasedAuthentication", "PKCS11Provider")
"""Keywords of ssh_config that paramiko lacks; named in the error of a failed login."""


DATA = (
    "ssh_hostname",
    "ssh_port",
    "ssh_user",
    "ssh_password",
    "ssh_key",
    "ssh_key_password",
    "ssh_config_file",
    "ssh_known_hosts_file",
    CHECKING,
    "ssh_allow_agent",
    "ssh_look_for_keys",
    "ssh_forward_agent",
    "ssh_paramiko_connect_kwargs",
)
"""The host data that determine how a host is reached."""


def connect(destination: Destination, data: Mapping[str, Any], seconds: float = 10) -> SSHClient:
    """Log in to a host by its data (ssh_key, ssh_password and so on); the caller closes the connection.

    `seconds` is the limit without a ConnectTimeout. Raises HostError where the host, or a jump host, refuses;
    HostUnreachableError where none answers.
    """
    known_keys = KnownKeys(destination)
    seconds = destination.seconds("connecttimeout") or seconds
    client = SSHClient()
    client.set_missing_host_key_policy(known_keys)
    key = data.get("ssh_key")
    configured = list(identity(key, data.get("ssh_key_password"), destination)) if key else None
    agent, files = (data.get(name) is not False for name in ("ssh_allow_agent", "ssh_look_for_keys"))
    keys = configured or identities(destination, agent=agent, files=files)
    strategy = _Strategy(destination, data.get("ssh_password") or "", known_keys, keys)
    try:
        with ExitStack() as undo:
            undo.callback(client.close)
            sock = undo.enter_context(dial(destination, seconds))
            _start(client, sock, strategy, seconds, data.get("ssh_paramiko_connect_kwargs") or {})
            undo.pop_all()
    except HostUnreachableError as error:
        raise HostUnreachableError(
            error.message, remedy=f"see what `{_trial(destination)}` says; check name, port and jump hosts"
        ) from error
    transport = client.get_transport()
    if transport is None:
        raise HostUnreachableError("the connection was cut")
    if interval := destination.seconds("serveraliveinterval"):
        transport.set_keepalive(interval)
    if (data.get("ssh_forward_agent") or destination.is_on("forwardagent")) and not known_keys.changed:
        AgentRequestHandler(transport.open_session())
    return client


def _start(
    client: SSHClient,
    sock: socket.socket,
    strategy: "_Strategy",
    seconds: float,
    options: Mapping[str, Any],
) -> None:
    destination = strategy.destination
    try:
        client.connect(
            destination.host,
            destination.port,
            destination.user,
            sock=sock,
            timeout=seconds,
            banner_timeout=max(seconds, _BANNER_SECONDS),
            auth_strategy=strategy,  # type: ignore[arg-type] # it has what a strategy needs
            transport_factory=partial(_transport, destination, strategy.known),
            **options,
        )
    except IncompatiblePeer as error:
        raise HostRefusedError(
            f"the host and this side share no algorithm: {error}",
            remedy=f"see what each offers: `ssh -vv {shlex.quote(destination.name)}`; Ciphers, MACs and "
            "KexAlgorithms of ssh_config count",
        ) from error
    except (SSHException, EOFError, OSError) as error:
        raise cut(sock, f"{destination.host} port {destination.port}", error) from error


def _transport(
    destination: Destination, known_keys: KnownKeys, sock: socket.socket, **options: Any
) -> Transport:
    transport = HostTransport(sock, **options)
    offered = transport.get_security_options()
    # GCM authenticates while it decrypts.
    offered.ciphers = sorted(offered.ciphers, key=lambda cipher: "gcm" not in cipher)
    for keyword, name in _ALGORITHMS.items():
        algorithms = destination.get(keyword)
        if algorithms and algorithms != defaults().get(keyword):
            shared = [algorithm for algorithm in algorithms.split(",") if algorithm in getattr(offered, name)]
            if not shared:
                raise HostError(f"ssh_config's {keyword} names none that paramiko has: {algorithms}")
            setattr(offered, name, shared)
    kinds = [kind for kind in destination.get("hostkeyalgorithms").split(",") if kind in offered.key_types]
    transport.host_keys = known_keys.preferred(kinds or offered.key_types)
    return transport


@dataclass
class _Strategy:
    """Tries what OpenSSH would try, in its order: keys, and then a password."""

    destination: Destination
    password: str
    known: KnownKeys
    keys: Iterable[PKey]
    tried: list[PKey | str] = field(default_factory=list)
    accepted: tuple[str, ...] = ()

    def authenticate(self, transport: Transport) -> None:
        """Log in; raises HostError where all keys are refused, HostUnreachableError without an answer."""
        for attempt in self._attempts(transport):
            try:
                if not attempt():  # else the host wants one more
                    return
            except BadAuthenticationType as error:
                self.accepted = tuple(error.allowed_types)
            except SSHException as error:
                late = isinstance(error, AuthenticationException) and _TIMEOUT in str(error)
                if late or not transport.is_active():
                    raise self._cut(error) from error
        raise self._refused()

    def _attempts(self, transport: Transport) -> Iterator[Callable[[], Sequence[str]]]:
        user = self.destination.user
        if self.destination.get("pubkeyauthentication") not in ("no", "false"):
            for key in self.keys:
                self.tried.append(key)
                yield partial(transport.auth_publickey, user, key)
        if self.password and not self.known.changed:
            self.tried.append("a password")
            yield partial(transport.auth_password, user, self.password)
        yield partial(transport.auth_none, user)  # it also tells what the host would accept

    def _cut(self, error: Exception) -> HostError:
        if _TIMEOUT in str(error) or len(self.tried) < _KEYS_OF_A_LIMIT:
            return HostUnreachableError(f"the host does not answer the login: {error}")
        return self._refused(f"the host has hung up after {len(self.tried)} tries")

    def _refused(self, why: str = "") -> HostError:
        destination = self.destination
        keys = self.tried
        tried = [key if isinstance(key, str) else f"{key.get_name()} {key.fingerprint}" for key in keys]
        reason = why or f"tried {', '.join(tried) or 'no key, for there is none'}"
        accepted = f"; the host accepts {', '.join(self.accepted)}" if self.accepted else ""
        off = ("", "no", "false")
        passed_over = [name for name in _NOT_OBEYED if destination.get(name.lower()) not in off]
        without = f"; {', '.join(passed_over)} of ssh_config: not obeyed here" if passed_over else ""
        return HostRefusedError(
            f"the login as {destination.user} is refused: {reason}{accepted}{without}",
            remedy=f"try `{_trial(destination)}`; name user and key in ssh_config, or ssh_user and ssh_key",
        )


def _trial(destination: Destination) -> str:
    return f"ssh -o BatchMode=yes {shlex.quote(destination.name)} true"


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

    Small messages would wait for acknowledgements, 40 ms in each command and twice in a login. Keepalives
    detect connections that have died: the kernel ends one that does not acknowledge them. The check for a
    closed connection runs every two seconds, not ten times a second: with a thousand that alone takes a core.
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
