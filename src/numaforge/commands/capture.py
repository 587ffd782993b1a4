"""Save the snapshot of a host, or of each host of an inventory."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import root_option, snapshot_of
from numaforge.commands.one_host import captured
from numaforge.commands.options import data_option, limit_option, path_option
from numaforge.lib import ansible
from numaforge.lib.errors import ExitCode, HostError
from numaforge.lib.quantity import counted
from numaforge.report.terminal import complain, progress, remark, save

if TYPE_CHECKING:
    from numaforge.commands.over_inventory import Answers


@click.command()
@click.argument("host", metavar="[HOST|INVENTORY]", required=False)
@path_option(
    "--to",
    metavar="FILE|DIR",
    help="Where to save it; for an INVENTORY the folder of the snapshots. [default: HOST.snapshot.json on a "
    "terminal, else standard output]",
)
@click.option("-o", "--output", type=click.Choice(["json"]), expose_value=False, help="Format.")
@limit_option
@data_option
@root_option
def capture(
    host: str | None, to: str | None, limits: tuple[str, ...], data: tuple[str, ...], root: str | None
) -> ExitCode:
    """Save snapshots of hosts.

    HOST is a name as in a pyinfra inventory: a name, an address or an alias of ~/.ssh/config, user@name:port,
    @docker/NAME, @local [default: this machine]. INVENTORY is a pyinfra file (NAME.py), or a folder with an
    inventory.py: asks all of its hosts at once, and writes DIR/HOST.snapshot.json for each.

    Exit codes: 1 some hosts are refused, 6 some are unreachable.
    """
    if host and root:
        raise click.UsageError("give either HOST or --root, not both")
    if data and not host:
        raise click.UsageError("--data is for connecting to a HOST: name one")
    for inventory in inventories_of([host] if host else [], limits):
        return _capture_all(inventory, to, limits, data)
    if host:
        snapshot = captured(host, data)
    else:
        with progress("asking this machine"):
            snapshot = snapshot_of(None, root)
    if to is None and sys.stdout.isatty():  # a snapshot has thousands of lines
        name = host or (Path(root).resolve().name if root else socket.gethostname())
        name = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "host"  # docker-web of @docker/web
        to = f"{name}.snapshot.json"
    save(snapshot.to_json(), to, private=True)
    return ExitCode.YES


def is_inventory(source: str) -> bool:
    """Return whether a source is an inventory of pyinfra or Ansible, not a host or a snapshot (.json)."""
    if source.endswith((".py", ".json")):
        return source.endswith(".py")
    return Path(source, "inventory.py").is_file() or ansible.is_inventory(Path(source))


def inventories_of(sources: Sequence[str], limits: Sequence[str]) -> list[str]:
    """Return the sources that are inventories; raises UsageError for limits without an inventory."""
    inventories = [source for source in sources if is_inventory(source)]
    if limits and not inventories:
        raise click.UsageError("--limit needs an INVENTORY")
    return inventories


def captured_hosts(
    inventory: str, limits: Sequence[str], folder: Path, data: Mapping[str, object]
) -> tuple[Answers, dict[str, str]]:
    """Capture the hosts of an inventory into a folder, with host data for the run; return each file."""
    from numaforge.commands.over_inventory import ask_all
    from numaforge.run.topology import CAPTURED

    named = {"out": str(folder.absolute()), **data}.items()
    words = [word for name, value in named for word in ("--data", f"{name}={json.dumps(value)}")]
    function = "numaforge.run.topology.capture"
    answers = ask_all(inventory, limits, function, CAPTURED, "asking every host what it is", words)
    captured_names = (name for name in answers.settings if name not in answers.failed)
    return answers, {name: answers.events[name]["file"] for name in captured_names}


def _capture_all(inventory: str, folder: str | None, limits: Sequence[str], data: Sequence[str]) -> ExitCode:
    """Save each host's snapshot in a folder; print why others have none."""
    if folder is None or folder == "-":
        raise click.UsageError("the snapshots of an inventory go into a folder: --to DIR")
    if data:
        raise click.UsageError("--data is for one HOST; an INVENTORY has its own data")
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise HostError(
            "is not a folder", where=folder, remedy="name a folder for the snapshots of the hosts"
        )
    existing = next(parent for parent in (target.absolute(), *target.absolute().parents) if parent.exists())
    if not os.access(existing, os.W_OK | os.X_OK):  # checked before any host is asked
        raise HostError("cannot be written", where=folder, remedy="name another folder: --to DIR")
    from numaforge.report.hostnames import folded, grouped_by_reason

    answers, files = captured_hosts(inventory, limits, target, {})
    failed = {name: why.removeprefix(f"{name}: ") for name, why in answers.failed.items()}
    for why, names in grouped_by_reason(failed):
        complain(f"{folded(names)}: {why}")
    for file in files.values():
        remark(f"wrote {target / Path(file).name}")
    remark(f"{len(files)} of {counted(len(answers.settings), 'host')} captured")
    return answers.exit_code
