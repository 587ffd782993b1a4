"""The command line of the lab: `python -m lab up`, `down`, `reset`, `ssh`, `kubectl`, `status` and more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from lab import cluster, drivers, gobuild, interrupts, requirements
from lab import demo as demonstration
from lab import kubelets as real_kubelets
from lab.cluster import Lab
from lab.errors import LabError
from lab.paths import REPOSITORY
from numaforge.lib.errors import NumaforgeError


class HandsOn(click.Command):
    """A command that hands its arguments on as they are, a `--` among them, to another program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read no options: click takes the first `--` away, which is this one."""
        return super().parse_args(ctx, ["--", *args])


@click.group()
def main() -> None:
    """Run a virtual GPU node and the Kubernetes cluster that it belongs to."""
    interrupts.install()


@main.command()
@click.option("--nodes", type=click.IntRange(1, 9), envvar="LAB_NODES", default=1, show_default=True)
@click.option("--boot", is_flag=True, help="Take no state that the lab of another checkout has saved.")
def up(nodes: int, boot: bool) -> None:
    """Bring the lab up; the first time everything is built, afterwards the saved state is restored."""
    requirements.ensure()
    Lab().up(nodes, boot=boot)


@main.command()
def down() -> None:
    """End every process of the lab."""
    Lab().down()


@main.command()
def reset() -> None:
    """Put the nodes and the cluster back as they were when first Ready."""
    Lab().reset()


@main.command()
def require() -> None:
    """Install what the lab and the tests need of this machine's packages, or say what is missing."""
    requirements.ensure()
    requirements.ensure_browser()


@main.command()
def build() -> None:
    """Build binaries and image, and what only the tests need, without starting anything."""
    _build()


@main.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
def prepare(folders: tuple[Path, ...]) -> None:
    """Build everything, and save the state of labs in these FOLDERS, from which `up` restores them."""
    _build()  # a node that boots beside it would take longer
    if len(folders) == 1:
        Lab(folders[0].absolute()).prepare(1)
        return
    # A process for each: an interrupt is raised in the main thread alone, and has to end them all.
    commands = [[sys.executable, "-m", "lab", "prepare", str(folder.absolute())] for folder in folders]
    with ThreadPoolExecutor(len(commands) or 1) as pool, _running(commands) as labs:
        for ended in as_completed([pool.submit(lab.wait) for lab in labs]):
            if ended.result() != 0:
                raise LabError("a lab cannot be prepared; its own message stands above")


def _build() -> None:
    requirements.ensure()
    cluster.build()
    for component in gobuild.FOR_TESTS:
        gobuild.build(component)


@contextmanager
def _running(commands: Sequence[Sequence[str]]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start commands; where the body fails, tell each to end, and wait until it has."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.extend(subprocess.Popen(command, cwd=REPOSITORY) for command in commands)
        yield started
    except BaseException:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
        raise


@main.command()
def programs() -> None:
    """Build Kubernetes' programs, and print their folder: kubectl for tests whose machine has none."""
    click.echo(str(gobuild.build(gobuild.KUBERNETES)))


@main.command()
def kubelets() -> None:
    """Build a kubelet of every minor that can be built, and say where each lies."""
    requirements.ensure()
    for minor in real_kubelets.MINORS:
        click.echo(f"{real_kubelets.version(minor):8} {real_kubelets.build(minor)}")


@main.command()
def demo() -> None:
    """Bring the lab up if it is not, provision its first node, verify it, and show where a pod is pinned."""
    requirements.ensure()
    lab = Lab()
    if not lab.running():
        lab.up(1)
    demonstration.show(lab)


@main.command(cls=HandsOn)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def ssh(arguments: tuple[str, ...]) -> None:
    """Log in to a node as root, or run a command there: ssh [NODE] [-- COMMAND...]."""
    lab = Lab()
    lab.require_running()
    named = bool(arguments) and arguments[0] in {node.name for node in lab.nodes}
    node = lab.node(arguments[0]) if named else lab.nodes[0]
    line = node.ssh_arguments()
    os.execv(line[0], [*line, *arguments[named:]])  # noqa: S606


@main.command(cls=HandsOn)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(arguments: tuple[str, ...]) -> None:
    """Run kubectl against the lab's cluster."""
    lab = Lab()
    lab.require_running()
    program = str(lab.control_plane.kubectl())
    environment = os.environ | {"KUBECONFIG": str(lab.kubeconfig)}
    os.execve(program, [program, *arguments], environment)  # noqa: S606


@main.command(cls=HandsOn)
@click.argument("name", metavar="cpu|gpu", type=click.Choice(list(drivers.DRIVERS)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def driver(name: str, arguments: tuple[str, ...]) -> None:
    """Run a DRA driver on the first node with these arguments, or end it: driver cpu --group-by=socket."""
    lab = Lab()
    lab.require_running()
    chosen = drivers.DRIVERS[name]
    if arguments == ("stop",):
        drivers.stop(lab, lab.nodes[0], chosen)
        return
    drivers.start(lab, lab.nodes[0], chosen, *arguments)
    click.echo(f"{chosen.unit} runs on {lab.nodes[0].name}")


@main.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(output: str) -> None:
    """Show processes and nodes; exit with 1 when the lab is not running."""
    report = Lab().status()
    if output == "json":
        click.echo(json.dumps(report, indent=2))
    elif not report["running"]:
        click.echo("the lab is not running: make lab-up")
        if report["processes"]:
            click.echo(f"processes of it live on: {', '.join(report['processes'])}; end them: make lab-down")
    else:
        _print_nodes(report["nodes"])
        click.echo(f"kubeconfig  {report['kubeconfig']}")
    sys.exit(0 if report["running"] else 1)


def _print_nodes(nodes: list[dict[str, Any]]) -> None:
    table = Table("node", "ready", "kubelet", "cpu", "memory", "nvidia.com/gpu", "ssh port")
    for node in nodes:
        allocatable = node["allocatable"]
        amounts = [str(allocatable.get(name, "0")) for name in ("cpu", "memory", cluster.GPU_RESOURCE)]
        table.add_row(
            str(node["name"]),
            "yes" if node["ready"] else "no",
            str(node["version"]),
            *amounts,
            str(node["ssh_port"]),
        )
    Console().print(table)


@main.command()
def inventory() -> None:
    """Print pyinfra's host data of the running nodes as JSON."""
    click.echo(json.dumps(Lab().inventory(), indent=2))


if __name__ == "__main__":
    try:
        main()
    except NumaforgeError as error:
        click.echo(str(error), err=True)
        sys.exit(int(error.exit_code))
