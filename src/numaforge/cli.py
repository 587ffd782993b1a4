"""The command line: every error as one message and an exit code, and a JSON twin of everything it prints."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from numaforge import __version__
from numaforge.commands.init import init
from numaforge.commands.verify import verify
from numaforge.errors import ExitCode, HostError, NumaforgeError, TopologyError
from numaforge.report.admit import admit, fit
from numaforge.report.check import check
from numaforge.report.terminal import plain, progress, show, show_json

# Everything that takes time to import is imported by the command that needs it: `--help` answers at once.
if TYPE_CHECKING:
    from numaforge.planning.model import NodePlan
    from numaforge.snapshot import Snapshot
    from numaforge.topology.model import NodeTopology

_INTERRUPTED = 130  # as a shell reports SIGINT
_BROKEN_PIPE = 141  # as a shell reports SIGPIPE
_FAULT = 70  # EX_SOFTWARE of sysexits.h: a fault of numaforge itself, never an answer

Function = TypeVar("Function", bound=Callable[..., Any])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 yes, 1 the answer is no, 2 bad input."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the one place where errors are printed."""
    try:
        # Group.main() would answer a broken pipe and an interrupt in its own way.
        given = list(sys.argv[1:] if arguments is None else arguments)
        with numaforge.make_context("numaforge", given) as context:
            result = numaforge.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except NumaforgeError as error:
        return _complain(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        return _complain("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        # What reads our output went away; without this Python complains again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (OSError, UnicodeDecodeError) as error:
        return _complain(_in_words(error), ExitCode.BAD_INPUT)
    except Exception as fault:
        if os.environ.get("NUMAFORGE_TRACEBACK"):
            raise
        return _complain(
            f"this is a fault of numaforge itself: {type(fault).__name__}: {fault}\n"
            "  please report it with the snapshot; NUMAFORGE_TRACEBACK=1 shows where it happened",
            _FAULT,
        )
    return result if isinstance(result, int) else ExitCode.YES


def _complain(message: str, exit_code: int) -> int:
    click.echo(f"numaforge: {plain(message)}", err=True)
    return exit_code


def _in_words(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"a file is not UTF-8 text: {error.reason} at byte {error.start}"
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def numaforge() -> None:
    """Turn a GPU server into a topology-aligned Kubernetes worker.

    SNAPSHOT is a file saved by `numaforge capture`; without one, every command looks at this machine.
    """


def _as(*formats: str) -> Callable[[Function], Function]:
    return click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="What to print.",
    )


_snapshot_argument = click.argument("source", metavar="[SNAPSHOT]", required=False, type=click.Path())
_snapshot_or_plan_argument = click.argument(
    "source", metavar="[SNAPSHOT|PLAN]", required=False, type=click.Path()
)
_root_option = click.option(
    "--root", metavar="DIR", type=click.Path(), help="Look at a captured root directory instead."
)
_profile_option = click.option(
    "--profile", metavar="NAME|FILE", help="A ready profile's name, or a YAML file with the intent."
)
_kubelet_version_option = click.option(
    "--kubelet-version",
    metavar="VERSION",
    help="Plan for this kubelet, such as 1.36.3, instead of the one that is installed.",
)


@numaforge.command()
@click.argument("host", required=False)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Where to save it; else standard output."
)
@click.option(
    "--data",
    metavar="KEY=VALUE",
    multiple=True,
    help="What pyinfra needs to connect, such as ssh_user=ubuntu, ssh_port=2222 or ssh_key=PATH.",
)
@_root_option
def capture(host: str | None, output: str | None, data: tuple[str, ...], root: str | None) -> None:
    """Save what a host says about itself.

    HOST is what a pyinfra inventory calls it: a name, an address or an alias of ~/.ssh/config for SSH, also
    user@name:port, else @docker/NAME, @local and so on. Without HOST it is this machine.
    """
    if host and root:
        raise click.UsageError("give either HOST or --root, not both")
    if data and not host:
        raise click.UsageError("--data says how to connect to HOST, and there is none")
    with progress(f"asking {host or 'this machine'}"):
        snapshot = _captured_from(host, data) if host else _snapshot(None, root)
    text = snapshot.to_json()
    if output is None or output == "-":
        click.echo(text, nl=False)
        return
    _write(Path(output), text)
    click.echo(f"wrote {output}", err=True)


@numaforge.command()
@_snapshot_argument
@_root_option
@_as("table", "json")
def topology(source: str | None, root: str | None, output: str) -> None:
    """Show packages, NUMA nodes, cores, memory and devices."""
    machine = _topology(source, root)
    if output == "json":
        from numaforge.topology.document import to_document

        show_json(to_document(machine))
        return
    from numaforge.report.tables import topology_tables

    show(topology_tables(machine))


@numaforge.command()
@_snapshot_or_plan_argument
@_root_option
@_profile_option
@_kubelet_version_option
@_as("table", "json")
def plan(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None, output: str
) -> None:
    """Decide what a machine gets, and say why.

    With --profile, that profile's plan is made; without it, the plan that the host already has is shown. A
    PLAN file is shown as it is.
    """
    _, decided = _machine_and_plan(source, root, profile, kubelet_version)
    if decided is None:
        raise click.UsageError(f"--profile says what the node is for; ready ones: {_ready_profiles()}")
    if output == "json":
        from numaforge.planning.document import dumps

        click.echo(dumps(decided), nl=False)
        return
    from numaforge.report.tables import plan_tables

    show(plan_tables(decided))


@numaforge.command()
@_snapshot_or_plan_argument
@_root_option
@_profile_option
@_kubelet_version_option
@click.option(
    "-o", "--output", metavar="FILE.svg", type=click.Path(), help="Where to save it; else standard output."
)
def draw(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None, output: str | None
) -> None:
    """Draw a machine, with what is reserved on it, as SVG.

    With --profile, that profile's plan is drawn; without it, the plan that the host already has, if any. A
    PLAN file alone shows NUMA nodes and CPUs: it does not say which cores, caches and devices there are.
    """
    from numaforge.report.svg import draw as drawn

    machine, decided = _machine_and_plan(source, root, profile, kubelet_version)
    svg = drawn(machine, decided)
    if output is None or output == "-":
        click.echo(svg, nl=False)
        return
    _write(Path(output), svg)
    click.echo(f"wrote {output}", err=True)


def _machine_and_plan(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None
) -> tuple[NodeTopology, NodePlan | None]:
    from numaforge.planning.document import loads

    if source is not None and {"cpus", "numa_nodes", "decisions"} <= (_document(source) or {}).keys():
        if root or profile or kubelet_version:
            raise click.UsageError(
                "a PLAN is shown as it is: leave out --root, --profile and --kubelet-version"
            )
        from numaforge.report.layout import topology_of

        try:
            decided = loads(_read(source))
        except NumaforgeError as error:
            raise error.at(source) from error
        return topology_of(decided), decided
    machine = _topology(source, root)
    if profile is not None:
        return machine, _plan(machine, profile, kubelet_version)
    return machine, loads(machine.previous_plan) if machine.previous_plan else None


def _topology(source: str | None, root: str | None) -> NodeTopology:
    from numaforge.topology import from_document, read_topology

    try:
        if source and not root and (document := _document(source)) is not None and "packages" in document:
            return from_document(document)
        return read_topology(_snapshot(source, root))
    except TopologyError as error:
        raise error.at(source or root or "this machine") from error


def _snapshot(source: str | None, root: str | None) -> Snapshot:
    from numaforge.snapshot import Snapshot, from_local, from_root

    if source and root:
        raise click.UsageError("give either SNAPSHOT or --root, not both")
    if source:
        return Snapshot.load(Path(source))
    return from_root(Path(root)) if root else from_local()


def _document(source: str) -> dict[str, Any] | None:
    """Return the mapping in a JSON file; None for anything else, which the snapshot's reader explains."""
    try:
        document = json.loads(_read(source))
    except ValueError:
        return None
    except RecursionError as error:
        raise NumaforgeError("JSON nested too deeply to be one of ours", where=source) from error
    return document if isinstance(document, dict) else None


def _captured_from(host: str, data: Sequence[str]) -> Snapshot:
    from numaforge.hosts import capture as capture_from

    name, connection = _address(host)
    for entry in data:
        key, equals, value = entry.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{entry!r} is not KEY=VALUE", param_hint="--data")
        connection[key] = int(value) if value.isdigit() else value
    with _log_of_pyinfra() as log:
        try:
            return capture_from(name, connection)
        except HostError as error:
            reasons = [line.removeprefix(f"[{name}] ") for line in log if line.startswith(f"[{name}] ")]
            message = f"cannot be reached: {' '.join(reasons)}" if reasons else error.message
            raise HostError(message, where=error.where, remedy=error.remedy) from error


@contextmanager
def _log_of_pyinfra() -> Iterator[list[str]]:
    """Collect what pyinfra logs instead of printing it, so that a failure stays one message."""
    import logging

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(click.unstyle(record.getMessage()))  # type: ignore[method-assign]
    logger = logging.getLogger("pyinfra")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def _address(host: str) -> tuple[str, dict[str, str | int]]:
    """Split `user@name:port` into pyinfra's name and data; the names of other connectors stay whole."""
    if host.startswith("@"):
        return host, {}
    user, _, name = host.rpartition("@")
    connection: dict[str, str | int] = {"ssh_user": user} if user else {}
    address = re.fullmatch(r"\[(.+)\](?::(\d+))?|([^:]+):(\d+)", name)
    if address:
        bracketed, bracketed_port, plain, plain_port = address.groups()
        name, port = bracketed or plain, bracketed_port or plain_port
        if port:
            connection["ssh_port"] = int(port)
    return name, connection


def _plan(machine: NodeTopology, profile: str, kubelet_version: str | None) -> NodePlan:
    from numaforge.planning.node import plan_node
    from numaforge.profile import load_profile

    return plan_node(machine, load_profile(profile), kubelet_version)


def _ready_profiles() -> str:
    from numaforge.profile import ready_profiles

    return ", ".join(ready_profiles())


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


class _RolloutCommands(click.Group):
    """The commands of a roll-out: they take a while to import, so that waits until one is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self._commands.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._commands.get_command(ctx, cmd_name)

    @property
    def _commands(self) -> click.Group:
        from numaforge.report.rollout import rollout

        return rollout


@numaforge.group(cls=_RolloutCommands)
def rollout() -> None:
    """Restart kubelets on live nodes: drain, change, prove, undo.

    INVENTORY is pyinfra's. Exits with 0 when every node is as planned, 3 when some are blocked, 4 when some
    were rolled back, 5 when some are held for a person.
    """


for _command in (check, admit, fit, init, verify):
    numaforge.add_command(_command)


if __name__ == "__main__":
    main()
