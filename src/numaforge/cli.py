"""The command line: every error as one message and an exit code, and a JSON twin of everything it prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from numaforge import __version__
from numaforge.errors import ExitCode, NumaforgeError

# Everything that takes time to import is imported by the command that needs it: `--help` answers at once.
if TYPE_CHECKING:
    from rich.console import RenderableType

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
        result = numaforge.main(args=arguments, prog_name="numaforge", standalone_mode=False)
        sys.stdout.flush()
    except NumaforgeError as error:
        return _complain(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return ExitCode.BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
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
    click.echo(f"numaforge: {message}", err=True)
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
@_root_option
def capture(host: str | None, output: str | None, root: str | None) -> None:
    """Save what a host says about itself.

    HOST is what pyinfra calls it: a name or address for SSH (also user@name:port), @docker/image, @local.
    """
    if host and root:
        raise click.UsageError("give either HOST or --root, not both")
    with _progress(f"asking {host}" if host else "looking at this machine", shown=not root):
        snapshot = _captured_from(host) if host else _snapshot(None, root)
    text = snapshot.to_json()
    if output is None or output == "-":
        click.echo(text, nl=not text.endswith("\n"))
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

        _print_json(to_document(machine))
        return
    from numaforge.report.tables import topology_tables

    _print(topology_tables(machine))


@numaforge.command()
@_snapshot_argument
@_root_option
@_profile_option
@_kubelet_version_option
@_as("table", "json")
def plan(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None, output: str
) -> None:
    """Decide what a machine gets, and say why."""
    if profile is None:
        raise click.UsageError(f"--profile says what the node is for; ready ones: {_ready_profiles()}")
    decided = _plan(_topology(source, root), profile, kubelet_version)
    if output == "json":
        from numaforge.planning.document import dumps

        text = dumps(decided)
        click.echo(text, nl=not text.endswith("\n"))
        return
    from numaforge.report.tables import plan_tables

    _print(plan_tables(decided))


@numaforge.command()
@click.argument("source", metavar="[SNAPSHOT|PLAN]", required=False, type=click.Path())
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

    machine, decided = _picture_of(source, root, profile, kubelet_version)
    svg = drawn(machine, decided)
    if output is None or output == "-":
        click.echo(svg, nl=False)
        return
    _write(Path(output), svg)
    click.echo(f"wrote {output}", err=True)


def _picture_of(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None
) -> tuple[NodeTopology, NodePlan | None]:
    from numaforge.planning.document import loads

    if source is not None and _is_plan(source):
        if root or profile:
            raise click.UsageError("a PLAN is drawn as it is: leave out --root and --profile")
        from numaforge.report.layout import topology_of

        decided = loads(_read(source))
        return topology_of(decided), decided
    machine = _topology(source, root)
    if profile is not None:
        return machine, _plan(machine, profile, kubelet_version)
    return machine, loads(machine.previous_plan) if machine.previous_plan else None


def _is_plan(source: str) -> bool:
    """Tell a plan from a snapshot by its fields; what is neither, the snapshot's reader refuses."""
    import json

    try:
        document = json.loads(_read(source))
    except (json.JSONDecodeError, RecursionError):
        return False
    return isinstance(document, dict) and {"cpus", "numa_nodes", "decisions"} <= document.keys()


def _topology(source: str | None, root: str | None) -> NodeTopology:
    from numaforge.topology import read_topology

    snapshot = _snapshot(source, root)
    try:
        return read_topology(snapshot)
    except NumaforgeError as error:
        raise error.at(source or root or "this machine") from error


def _snapshot(source: str | None, root: str | None) -> Snapshot:
    from numaforge import snapshot

    if source and root:
        raise click.UsageError("give either SNAPSHOT or --root, not both")
    if source:
        return snapshot.load(Path(source))
    if root:
        return snapshot.from_root(Path(root))
    return snapshot.from_local()


def _captured_from(host: str) -> Snapshot:
    from numaforge.hosts import capture as capture_from

    return capture_from(host)


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


def _print_json(document: object) -> None:
    import json

    click.echo(json.dumps(document, indent=2))


def _print(renderable: RenderableType) -> None:
    from rich.console import Console

    Console(highlight=False).print(renderable)


@contextmanager
def _progress(what: str, *, shown: bool) -> Iterator[None]:
    """Turn a spinner on standard error while a command waits; where that is no terminal, say it once."""
    if not shown:
        yield
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


if __name__ == "__main__":
    main()
