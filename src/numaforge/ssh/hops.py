"""The way to a host as a socket: straight, through a jump host, or through a program (ProxyCommand)."""

import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from numaforge.lib.errors import HostError, HostRefusedError, HostUnreachableError
from numaforge.ssh.openssh import Destination, Question, answer_to, run_folder, telling_lines

_NO_QUESTIONS = ("-oBatchMode=yes", "-oLogLevel=ERROR", "-oServerAliveInterval=15", "-oServerAliveCountMax=3")
_NOTHING_ELSE = ("-oClearAllForwardings=yes", "-oPermitLocalCommand=no")  # as with `ssh -W`
_NO_GREETING = ("No existing session", "Error reading SSH protocol banner")  # paramiko's words for it
_IDLE_SECONDS = 15  # a connection to a jump host that nothing uses ends by itself
_ATTEMPT_SECONDS = 1  # between two of ConnectionAttempts
_REFUSED = ("Host key verification failed", "Permission denied", "no matching", "Bad configuration")
_MOST_LINES = 3
_LOG_IN = "log in to the jump host once with ssh: it has to let you in without a question"
_MUX_VERSION = 4
_HELLO, _FORWARD, _OPENED = 0x1, 0x10000008, 0x80000006  # OpenSSH's PROTOCOL.mux


def dial(destination: Destination, seconds: float) -> socket.socket:
    """Return a socket to a host's sshd; raises HostError by a jump host, and HostUnreachableError."""
    if jump := destination.jump:
        _refuse_circle(jump)
        return _jump(jump).forward(destination.host, destination.port, seconds)
    if command := destination.get("proxycommand"):
        shell = os.environ.get("SHELL") or "/bin/sh"
        program = Program([shell, "-c", f"exec {destination.filled(command)}"])
        return program.passed_socket() if destination.is_on("proxyusefdpass") else program
    return _straight(destination, seconds)


def cut(sock: socket.socket, where: str, error: Exception) -> HostError:
    """Return why a connection ended before the login, by the output of its program."""
    words = sock.last_words() if isinstance(sock, Program) else ""
    if _is_refusal(words):
        return HostRefusedError(f"the way to {where} is refused: {words}", remedy=_LOG_IN)
    if not words:
        words = "it sends no greeting of SSH" if str(error) in _NO_GREETING else str(error)
    return HostUnreachableError(f"{where} does not answer: {words or 'the connection was cut'}")


def _straight(destination: Destination, seconds: float) -> socket.socket:
    family = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(
        destination.get("addressfamily"), socket.AF_UNSPEC
    )
    try:
        addresses = _addresses(destination.host, destination.port, family)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise HostUnreachableError(f"{destination.host} does not resolve: {why}") from error
    failure = OSError("it has no address")
    for attempt in range(destination.seconds("connectionattempts") or 1):
        if attempt:
            time.sleep(_ATTEMPT_SECONDS)
        for kind, address in addresses:
            try:
                return _connected(kind, address, destination, seconds)
            except OSError as error:
                failure = error
    why = f"no answer within {seconds:g} s" if isinstance(failure, TimeoutError) else failure.strerror
    where = f"{destination.host} port {destination.port}"
    raise HostUnreachableError(f"cannot connect to {where}: {why or failure}") from failure


def _addresses(host: str, port: int, family: int) -> list[tuple[int, Any]]:
    """Return a host's addresses with their families; an IPv4 address needs no thread of gevent's resolver."""
    with suppress(OSError):
        if family != socket.AF_INET6:
            socket.inet_pton(socket.AF_INET, host)
            return [(socket.AF_INET, (host, port))]
    entries = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    return [(kind, address) for kind, _, _, _, address in entries]


def _connected(family: int, address: Any, destination: Destination, seconds: float) -> socket.socket:
    with ExitStack() as undo:
        sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        if interface := destination.get("bindinterface"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        if source := destination.get("bindaddress"):
            sock.bind((source, 0))
        sock.settimeout(seconds)
        sock.connect(address)
        undo.pop_all()
        return sock


class _NearEnd(socket.socket):
    """One end of a pair of sockets, with the other one in `far_end`."""

    def __init__(self) -> None:
        near_end, self.far_end = socket.socketpair()
        super().__init__(near_end.family, near_end.type, near_end.proto, fileno=near_end.detach())


class Program(_NearEnd):
    """A socket connected to a program's input and output."""

    def __init__(self, command: list[str]) -> None:
        super().__init__()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (read after the socket is closed)
        with self.far_end as end:
            self._process = subprocess.Popen(
                command, stdin=end.fileno(), stdout=end.fileno(), stderr=self._errors, start_new_session=True
            )

    def last_words(self) -> str:
        """Return the last lines of the program's errors."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)  # its output has ended: so has it, or will at once
        return _last_lines(self._errors)

    def passed_socket(self) -> socket.socket:
        """Return the socket that the program connects and passes on (ProxyUseFdpass)."""
        with self:
            _, descriptors, _, _ = socket.recv_fds(self, 1, 1)
            if not descriptors:
                raise HostUnreachableError(f"ProxyCommand has passed no socket: {self.last_words()}")
            return socket.socket(fileno=descriptors[0])

    def close(self) -> None:
        """End the program, too; keep its output, as paramiko closes a socket before it raises."""
        super().close()
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)


@cache
def _refuse_circle(question: Question) -> None:
    """Raise HostError for a cycle of jump hosts: `ssh` would start itself without end."""
    passed: list[Question] = []
    while question not in passed:
        passed.append(question)
        if not (jump := answer_to(question).jump):
            return
        question = jump
    names = [jump.name for jump in passed[passed.index(question) :]]
    raise HostError(
        f"ssh_config's ProxyJump leads in a circle: {' to '.join([*names, question.name])}",
        remedy=f"write `ProxyJump none` for {question.name}",
    )


class _Jump:
    """A jump host: one connection of OpenSSH's to it (ControlMaster), which all hosts behind it share.

    A configuration that has a ControlPath for it uses that.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._path = str(Path(run_folder(), f"jump-{_jump.cache_info().currsize}"))
        self._lock = threading.Lock()
        self._failed: tuple[float, HostError] | None = None

    def forward(self, host: str, port: int, seconds: float) -> socket.socket:
        if answer_to(self._question).get("controlpath"):
            return Program([*self._command(), "-W", f"[{host}]:{port}", "--", self._question.name])
        control = self._connection(time.monotonic(), seconds)
        try:
            return _Forward(control, host, port, seconds)
        except (OSError, EOFError, struct.error) as error:
            way = f"{host} port {port}"
            late = f"has not reached {way} within {seconds:g} s"
            why = late if isinstance(error, TimeoutError) else f"does not reach {way}"
            raise HostUnreachableError(f"the jump host {self._question.name} {why}") from error

    def _connection(self, asked_at: float, seconds: float) -> socket.socket:
        with self._lock:
            if self._failed is not None and self._failed[0] >= asked_at:
                raise self._failed[1]
            control = socket.socket(socket.AF_UNIX)
            try:
                control.connect(self._path)
            except OSError:
                self._open(seconds)
                control.connect(self._path)
            return control

    def _open(self, seconds: float) -> None:
        """Log in to the jump host; `ssh` then stays in the background."""
        Path(self._path).unlink(missing_ok=True)
        shared = ["-N", "-M", "-S", self._path, f"-oControlPersist={_IDLE_SECONDS}", *_NOTHING_ELSE]
        limited = answer_to(self._question).get("connecttimeout")
        shared += [] if limited else [f"-oConnectTimeout={seconds:.0f}"]
        command = [*self._command(), *shared, "--", self._question.name]
        with tempfile.TemporaryFile() as errors:
            nothing = subprocess.DEVNULL
            done = subprocess.run(command, stdin=nothing, stdout=errors, stderr=errors, check=False)
            why = _last_lines(errors)
        if done.returncode or not Path(self._path).exists():
            jump = f"the jump host {self._question.name}"
            error: HostError = HostUnreachableError(f"{jump} does not answer: {why or 'ssh says nothing'}")
            if _is_refusal(why):
                error = HostRefusedError(f"{jump} refuses: {why}", remedy=_LOG_IN)
            self._failed = time.monotonic(), error
            raise error

    def _command(self) -> list[str]:
        return ["ssh", *self._question.with_config, *self._question.options, *_NO_QUESTIONS]


@cache
def _jump(question: Question) -> _Jump:
    return _Jump(question)


def _is_refusal(words: str) -> bool:
    return any(word in words for word in _REFUSED)


def _last_lines(errors: IO[bytes]) -> str:
    """Return the last output of `ssh` and other programs in one line, without noise."""
    errors.seek(0)
    return "; ".join(telling_lines(errors.read(2**16).decode("utf-8", "replace"))[-_MOST_LINES:])


class _Forward(_NearEnd):
    """A socket that OpenSSH connects to a host behind a jump host, by its socket for such requests."""

    def __init__(self, control: socket.socket, host: str, port: int, seconds: float) -> None:
        super().__init__()
        self._control = control  # OpenSSH ends the forwarding when it is closed
        control.settimeout(seconds)
        with self.far_end as far_end:
            _send(control, struct.pack(">II", _HELLO, _MUX_VERSION))
            _receive(control)
            name = host.encode()
            _send(control, struct.pack(f">IIII{len(name)}sI", _FORWARD, 0, 0, len(name), name, port))
            for _ in range(2):  # its input and its output
                socket.send_fds(control, [b"\0"], [far_end.fileno()])
            (kind,) = struct.unpack_from(">I", _receive(control))
        if kind != _OPENED:
            self.close()
            raise OSError("refused")

    def close(self) -> None:
        """End the forwarding, too."""
        super().close()
        self._control.close()


def _send(control: socket.socket, message: bytes) -> None:
    control.sendall(struct.pack(">I", len(message)) + message)


def _receive(control: socket.socket) -> bytes:
    (length,) = struct.unpack(">I", _exactly(control, 4))
    return _exactly(control, length)


def _exactly(control: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        if not (part := control.recv(length - len(received))):
            raise EOFError
        received += part
    return received
