"""Hosts through pyinfra: our facts, our operations, and how a host fails."""

from __future__ import annotations

import re
import secrets
import shlex
import socket
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast
from weakref import WeakKeyDictionary

from gevent import Timeout  # type: ignore[import-untyped]
from paramiko import SSHException
from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FactBase, Host, State, StringCommand, deploy, operation
from pyinfra.api.arguments_typed import PyinfraOperation
from pyinfra.api.command import FunctionCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.output import format_text

from numaforge.errors import HostError, NumaforgeError
from numaforge.node import bundle
from numaforge.node.bundle import FileChange, FileContent, FileState
from numaforge.planning.model import NodePlan
from numaforge.rollout import events
from numaforge.rollout.patience import HostAwayError
from numaforge.snapshot import Snapshot, parse_output, script
from numaforge.topology.model import NodeTopology

Commands = Generator[StringCommand | FunctionCommand, None, None]
P = ParamSpec("P")

LOOK_SECONDS = 600
"""How long a host may take to say what it is: those of a large inventory are all asked together."""
COMMAND_SECONDS = 3600
"""How long a host may take for what it is told; the longest is to end a change that fills huge pages."""
_CHANNEL_SECONDS = 60  # paramiko would wait for an hour until a host opens a channel
_HANG_UP_SECONDS = 5  # a connection through a host that does not answer is closed over that

# Runs the script on stdin as root, by itself or through a sudo that asks for nothing, and says which it was.
_RIGHT = "numaforge-right "
_AS_ROOT = (
    f'if [ "$(id -u)" = 0 ]; then echo {_RIGHT}root; exec sh -s; '
    f"elif ! command -v sudo >/dev/null 2>&1; then echo {_RIGHT}nosudo; "
    f"elif sudo -n true 2>/dev/null; then echo {_RIGHT}sudo; exec sudo -n sh -s; "
    f"else echo {_RIGHT}password; fi"
)
_NO_ROOT = {
    "nosudo": "is not root and there is no sudo",
    "password": "is not root and sudo asks for a password",
}

# A kernel file's first line. The shell's own `read` needs no process, which counts with 1000 files below
# /sys, but it asks for one byte at a time, and a sysctl gives its value to the first read only.
FIRST_LINE = r"""
first_line() { # PATH, into $line
    case $1 in
    /proc/sys/*) line=$(head -n 1 "$1") ;;
    *) IFS= read -r line < "$1" ;;
    esac
}
"""
_READ_VALUES = r"""
numaforge_read() { # prints PATH:VALUE
    sysctls=
    for path in "$@"; do
        case $path in
        /proc/sys/*) sysctls="$sysctls $path" ;;
        *) if [ -r "$path" ] && IFS= read -r line < "$path"; then echo "$path:$line"; fi ;;
        esac
    done 2>/dev/null
    if [ -n "$sysctls" ]; then grep -sH '' $sysctls; fi
    echo .
}
"""


# ---- facts ----


@dataclass(frozen=True)
class Answer:
    """What a host answered: by which right the script ran ("root", "sudo", or why not), and its output."""

    right: str
    output: tuple[str, ...]


class Detection(FactBase[Answer | None]):
    """Everything there is to know about a host, in one round trip; `parse_output` reads the output.

    Takes the script through `_stdin`. None where the host did not answer.
    """

    def command(self) -> str:
        """Run the script as root where that is possible."""
        return _AS_ROOT

    def process(self, output: list[str]) -> Answer | None:
        """Split the line that names the right from the script's output; a login banner may come first."""
        for number, line in enumerate(output):
            if line.startswith(_RIGHT):
                return Answer(line.removeprefix(_RIGHT), tuple(output[number + 1 :]))
        return None


class ScriptOutput(FactBase["list[str] | None"]):
    """The output lines of a script given through `_stdin`; None where it printed nothing or failed."""

    def command(self) -> str:
        """Run the script."""
        return "sh -s"

    def process(self, output: list[str]) -> list[str]:
        """Return the lines as they are."""
        return output


@dataclass(frozen=True)
class _ReadAhead:
    """What a script printed, for the operation before which so many others have finished on the host."""

    output: list[str]
    before_operation: int


# ---- a host that fails, fails alone ----


def fail_host(host: Host, error: NumaforgeError) -> None:
    """Print the error once and take the host out of the run; the others go on, and pyinfra exits with 1."""
    _print_error(host, error)
    go_on_without_failed(host.state)
    host.state.fail_hosts({host})  # type: ignore[no-untyped-call]


def go_on_without_failed(state: State) -> None:
    """Have a run go on without the hosts that fail, where there is no terminal to ask "continue?" of.

    pyinfra asks all the same, and breaks off the run for every host when nothing answers.
    """
    if state.should_raise_failed_hosts and not sys.stdin.isatty():
        state.should_raise_failed_hosts = lambda _state: False


def role(name: str) -> Callable[[Callable[[], None]], PyinfraOperation[[]]]:
    """Make a role's deploy function: it skips a host that has failed; an error fails its own host only."""

    def decorate(function: Callable[[], None]) -> PyinfraOperation[[]]:
        @wraps(function)
        def guarded() -> None:
            host = current_host
            if host in host.state.failed_hosts:
                return
            _roles.setdefault(host, []).append(name.lower())
            try:
                function()
            except NumaforgeError as error:
                fail_host(host, error)

        return deploy(name)(guarded)

    return decorate


def host_operation(function: Callable[P, Commands]) -> PyinfraOperation[P]:
    """Make an operation whose errors fail their own host only, while preparing as while executing."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Commands:
        try:
            for command in function(*args, **kwargs):
                _read_ahead.pop(current_host, None)  # what was read before this change is old now
                yield command
        except NumaforgeError as error:
            if not current_host.state.is_executing:
                raise
            # pyinfra breaks off the whole run for an exception here; a command that fails stops this host
            # alone.
            yield FunctionCommand(_refuse, (error,), {})

    return operation()(guarded)


def _refuse(state: State, host: Host, error: NumaforgeError) -> bool:  # noqa: ARG001 (pyinfra's signature)
    _print_error(host, error)
    return False


def host_command(
    function: Callable[Concatenate[Host, P], None], *args: P.args, **kwargs: P.kwargs
) -> FunctionCommand:
    """Make an operation's command that calls a function with the host; its errors fail this host alone."""

    def run(state: State, host: Host) -> bool:  # noqa: ARG001 (pyinfra's signature)
        try:
            function(host, *args, **kwargs)
        except NumaforgeError as error:
            _print_error(host, error)
            return False
        return True

    return FunctionCommand(run, (), {})


def script_command(script_text: str) -> StringCommand:
    """Make an operation's command that runs a script; a host that does not end it in time fails alone."""
    return StringCommand("sh", "-s", _stdin=script_text, _timeout=COMMAND_SECONDS)


def _print_error(host: Host, error: NumaforgeError) -> None:
    kind = "unreachable" if isinstance(error, HostAwayError) else "refused"
    events.record(kind, host.name, message=str(error))
    for line in str(error).splitlines():
        logger.error("%s%s", host.print_prefix, format_text(line, "red"))


# ---- what is known of a host during a run ----

_roles: WeakKeyDictionary[Host, list[str]] = WeakKeyDictionary()

# What the next operations will ask of a host, in their order, and what it has answered to that already.
_to_be_read: WeakKeyDictionary[Host, list[str]] = WeakKeyDictionary()
_read_ahead: WeakKeyDictionary[Host, dict[str, _ReadAhead]] = WeakKeyDictionary()


def detect(host: Host) -> Snapshot:
    """Take the host's snapshot in one round trip, and learn whether its commands need sudo.

    Raises HostError for a host without root rights, HostAwayError for one that does not answer, SnapshotError
    for an answer that cannot be read.
    """
    _send_at_once(host)
    with _within(host, LOOK_SECONDS):
        answer = host.get_fact(Detection, _stdin=script(), _sudo=False, _ignore_errors=True)
    if answer is None:
        raise HostAwayError(
            "did not run the detection script", remedy="see the messages above; the host needs a POSIX sh"
        )
    if answer.right in _NO_ROOT:
        raise HostError(
            f"the login user {_NO_ROOT[answer.right]}",
            where="ssh_user",
            remedy="log in as root, or give this user a sudoers rule with NOPASSWD: ALL",
        )
    host.data._sudo = answer.right == "sudo"
    return parse_output(answer.output)


def remember(host: Host, topology: NodeTopology, plan: NodePlan) -> None:
    """Keep what the run knows about a host, for the roles that follow."""
    host.data.numaforge_topology = topology
    host.data.numaforge_plan = plan


def planned(host: Host) -> NodePlan:
    """Return the host's plan.

    Raises HostError in a deploy that calls a role before the role `topology`.
    """
    plan: NodePlan | None = host.data.get("numaforge_plan")
    if plan is None:
        raise HostError("there is no plan yet", remedy="call topology() first in the deploy")
    return plan


def seen(host: Host) -> NodeTopology:
    """Return the host's topology as the role `topology` found it."""
    planned(host)
    return cast(NodeTopology, host.data.numaforge_topology)


def roles_of(host: Host) -> tuple[str, ...]:
    """Return the roles that this run has called for a host, as the plan's files name them."""
    return tuple(_roles.get(host, ()))


def _send_at_once(host: Host) -> None:
    """Set TCP_NODELAY: without it Nagle's algorithm and delayed ACKs add 40 ms to every command over SSH.

    And ask for signs of life, so that a connection that has silently died is noticed.
    """
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client else None
    if transport:
        transport.set_keepalive(15)
        transport.channel_timeout = _CHANNEL_SECONDS
    if transport and isinstance(transport.sock, socket.socket):  # behind a ProxyJump it is a paramiko channel
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def show_once(host: Host) -> bool:
    """Say whether a change is to be shown now: while preparing, or with `--diff` where `-y` skips that."""
    state = host.state
    return not state.is_executing if state.check_for_changes else bool(state.config.DIFF)


def show_lines(host: Host, lines: Sequence[str]) -> None:
    """Print the details of a change, once in a run."""
    if show_once(host):
        for line in lines:
            logger.info("%s%s", host.print_prefix, line)


def announce(host: Host, lines: Sequence[str]) -> None:
    """Say what an operation is about to do, once in a run, also where `-y` skips the preparation."""
    if not host.state.is_executing or not host.state.check_for_changes:
        for line in lines:
            host.log(line)


def show_changes(host: Host, changed: Sequence[FileChange]) -> None:
    """Print a unified diff of every file, once in a run; in colour only on a terminal."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    lines = [line for change in changed for line in bundle.diff(change)]
    show_lines(host, [format_text(line, colours[line[0]]) if line[:1] in colours else line for line in lines])


# ---- operations ----


def file_bundle(
    *, name: str, files: Sequence[FileContent], absent: Sequence[str] = (), **options: Any
) -> None:
    """Write many files atomically: one round trip to compare, one to change all that differ or none.

    + files: text, mode, owner and group of each
    + absent: paths that must not exist
    """
    paths, texts = _asked_of(files, absent)
    will_read(current_host, bundle.read_script(paths, texts))
    _bundle(name=name, files=files, absent=absent, **options)


def _asked_of(files: Sequence[FileContent], absent: Sequence[str]) -> tuple[list[str], list[str]]:
    return [*(file.path for file in files), *absent], [file.text for file in files]


@host_operation
def _bundle(files: Sequence[FileContent], absent: Sequence[str]) -> Commands:
    """Compare, and write what differs."""
    host = current_host
    paths, texts = _asked_of(files, absent)
    changed = bundle.changes(files, absent, file_states(host, paths, texts))
    if not changed:
        host.noop(f"{', '.join(paths)} {'is' if len(paths) == 1 else 'are'} already as planned")
        return
    show_changes(host, changed)
    yield script_command(bundle.write_script(changed))


def file_states(host: Host, paths: Sequence[str], known: Sequence[str]) -> dict[str, FileState]:
    """Return the files that exist among `paths`, in one round trip; `known` texts are not sent.

    Raises HostError when the host does not answer or a path is not a regular file.
    """
    return bundle.parse_states(script_output(host, bundle.read_script(paths, known)), known)


def kernel_values(host: Host, paths: Sequence[str]) -> dict[str, str]:
    """Return the first line of every kernel file that exists and can be read, in one round trip.

    Raises HostError when the host does not answer in full.
    """
    return parse_values(paths, script_output(host, values_script(paths)))


def values_script(paths: Sequence[str]) -> str:
    """Return the script whose output `parse_values` reads."""
    return f"{_READ_VALUES}numaforge_read {shlex.join(paths)}\n"


def parse_values(paths: Sequence[str], lines: Sequence[str]) -> dict[str, str]:
    """Return what `values_script` printed, by path.

    Raises HostError for an answer that is cut off.
    """
    if not lines or lines[-1] != ".":
        raise HostError("the answer about kernel settings is cut off", remedy="run again")
    asked = {*paths}
    values: dict[str, str] = {}
    for line in lines[:-1]:
        for colon in re.finditer(":", line):  # the path may hold one, as for the interface eth0:1
            path, value = line[: colon.start()], line[colon.end() :]
            if path in asked:
                values.setdefault(path, value)
                break
    return values


def will_read(host: Host, script_text: str) -> None:
    """Say in a role what its operation is going to give to `script_output`.

    The first operation that asks has the scripts of all that follow run in the same round trip. A change to
    the host makes what was read so far invalid, and so does an operation of somebody else in between: then
    the next of ours asks anew.
    """
    _to_be_read.setdefault(host, []).append(script_text)


def script_output(host: Host, script_text: str) -> list[str]:
    """Run a script that changes nothing and return the lines it prints, at least one.

    Raises HostError when it fails or prints nothing.
    """
    announced = _to_be_read.get(host, [])
    if script_text not in announced:
        return _run(host, script_text)
    # An operation that runs twice, to prepare and to execute, sees the host as it is each time.
    known = _read_ahead.get(host, {}).pop(script_text, None)
    finished: int = host.state.get_results_for_host(host).ops
    if known is not None and known.before_operation == finished:
        return _answered(known.output)
    following = announced[announced.index(script_text) :]
    first, *others = _run_all(host, following)
    _read_ahead[host] = {
        later: _ReadAhead(output, finished + number)
        for number, (later, output) in enumerate(zip(following[1:], others, strict=True), start=1)
    }
    return _answered(first)


def _run_all(host: Host, scripts: Sequence[str]) -> list[list[str]]:
    """Run scripts in one round trip, each in a shell of its own; return no lines for one that fails."""
    mark = _new_mark()
    ended = _ended(_run(host, "".join(_marked(text, mark) for text in scripts)), mark)
    if len(ended) != len(scripts):
        raise HostError("the answer is cut off", remedy="run again")
    return [lines if status == 0 else [] for status, lines in ended]


def _new_mark() -> str:
    return f"--- {secrets.token_hex(8)} "


def _marked(script_text: str, mark: str) -> str:
    """Have a script run in a shell of its own, and its end said.

    The shell reads to the closing bracket before it runs anything: half a script does nothing.
    """
    return f"(\n{script_text}\n)\necho {shlex.quote(mark)}$?\n"


def _ended(output: Sequence[str], mark: str) -> list[tuple[int, list[str]]]:
    """Return the exit status and the lines of each marked script that has ended."""
    ended: list[tuple[int, list[str]]] = []
    lines: list[str] = []
    for line in output:
        before, _, status = line.partition(mark)  # a script's last line may have no end of its own
        if before or not status:
            lines.append(before)
        if status:
            ended.append((int(status), lines))
            lines = []
    return ended


def _run(host: Host, script_text: str) -> list[str]:
    with _within(host, LOOK_SECONDS):
        return _answered(host.get_fact(ScriptOutput, _stdin=script_text, _ignore_errors=True))


def _answered(output: list[str] | None) -> list[str]:
    if not output:
        raise HostAwayError(
            "did not answer", remedy="see the messages above; run again when the host is reachable"
        )
    return output


def reached(host: Host, script_text: str, seconds: int = 120) -> list[str]:
    """Run a script on a host that may go away for a while, and return the lines it prints.

    A connection that broke is made anew. The limit is for all of it: to connect, to open a channel, which
    paramiko would await for an hour, to write the script and to read the answer. Raises HostAwayError where
    the host does not answer to the end, HostError with what the script complains of where it fails.
    """
    mark = _new_mark()
    try:
        with _within(host, seconds):
            if not host.connected:
                host.connect(show_errors=False, raise_exceptions=True)
            _, output = host.run_shell_command(
                StringCommand("sh", "-s"),
                _stdin=_marked(script_text, mark),
                _sudo=bool(host.data.get("_sudo")),
            )
    except (ConnectError, SSHException, OSError, EOFError) as error:
        _hang_up(host)
        raise HostAwayError(
            f"the host does not answer: {error or type(error).__name__}", where=host.name
        ) from error
    # A connection that is cut looks to pyinfra like a script that fails; one that fails says so itself.
    ended = _ended(output.stdout_lines, mark)
    if not ended:
        _hang_up(host)
        said = output.stderr.strip()
        raise HostAwayError(
            f"the host does not answer: the connection was cut{said and f' ({said})'}", where=host.name
        )
    ((status, lines),) = ended
    if status != 0:
        raise HostError(output.stderr.strip() or f"the script failed with {status}", where=host.name)
    return lines


@contextmanager
def _within(host: Host, seconds: int) -> Iterator[None]:
    """Limit a call of a host, whatever it waits for; raises HostAwayError after so many seconds."""
    limit = Timeout(seconds)  # interrupts what is patched by gevent, as all of a run of pyinfra is
    try:
        with limit:
            yield
    except Timeout as expired:
        _hang_up(host)
        if expired is not limit:
            raise
        raise HostAwayError(
            f"the host does not answer: no answer within {seconds} s", where=host.name
        ) from None


def _hang_up(host: Host) -> None:
    """Forget a connection that broke, so that the next call makes a new one; wait for no host to agree."""
    client = getattr(host.connector, "client", None)
    with Timeout(_HANG_UP_SECONDS, False), suppress(SSHException, OSError, EOFError):
        if client is not None:
            client.close()  # first: pyinfra cleans up over a connection that still seems to be there
        host.disconnect()
    host.connected = False


def capture(name: str, data: Mapping[str, Any]) -> Snapshot:
    """Connect to one host, named as in an inventory (`gpu-1`, `@local`, ...), and take its snapshot.

    Raises HostError when the host cannot be reached or lacks the rights.
    """
    from gevent import monkey

    monkey.patch_all()
    from pyinfra.api import Config, Inventory
    from pyinfra.api.connect import connect_all, disconnect_all
    from pyinfra.api.exceptions import PyinfraError
    from pyinfra.context import ctx_host, ctx_state

    inventory = Inventory(([name], {}), override_data=dict(data))  # type: ignore[no-untyped-call]
    state = State(inventory, Config(), check_for_changes=False)  # type: ignore[no-untyped-call]
    (host,) = list(state.inventory)
    try:
        connect_all(state)
        with ctx_state.use(state), ctx_host.use(host):
            return detect(host)
    except PyinfraError as error:
        raise HostError(
            f"cannot be reached: {error}", where=name, remedy="check its name, port, user and key"
        ) from error
    except NumaforgeError as error:
        raise error.at(name) from error
    finally:
        disconnect_all(state)
