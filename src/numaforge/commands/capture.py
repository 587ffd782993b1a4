"""Save the snapshot of a host, or of each host of an inventory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from numaforge.commands.machine import root_option, snapshot_of
from numaforge.lib import ansible
from numaforge.lib.errors import ExitCode, HostError, HostUnreachableError
from numaforge.lib.given import digits
from numaforge.report.terminal import complain, progress, remark, save
from numaforge.report.wording import counted

# Imports that `--help` does not need are inside the functions that use them.
if TYPE_CHECKING:
    from numaforge.commands.over_inventory import Answers
    from numaforge.machine.snapshot import Snapshot

Answer = TypeVar("Answer")

_OF_SSH = "ssh_"


@click.command()
@click.argument("host", metavar="[HOST|INVENTORY]", required=False)
@click.option(
    "--to",
    metavar="FILE|DIR",
    type=click.Path(),
    help="Where to save it; else standard output. For an INVENTORY the folder of the snapshots.",
)
@click.option("-o", "--output", type=click.Choice(["json"]), expose_value=False, help="Format.")
@click.option(
    "--limit", "limits", multiple=True, metavar="HOST|GROUP", help="Limit to these hosts or groups."
)
@click.option(
    "--data",
    metavar="KEY=VALUE",
    multiple=True,
    help="Connection data for pyinfra, e.g. ssh_user=ubuntu, ssh_port=2222 or ssh_key=PATH.",
)
@root_option
def capture(
    host: str | None,
    to: str | None,
    limits: tuple[str, ...],
    data: tuple[str, ...],
    root: str | None,
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
    """Capture the hosts of an inventory into a folder; return the answers and each captured file.

    `data` is additional host data for the run.
    """
    from numaforge.commands.over_inventory import ask_all
    from numaforge.run.topology import CAPTURED

    script_data = {"out": str(folder.absolute()), **data}
    words = [
        word for name, value in script_data.items() for word in ("--data", f"{name}={json.dumps(value)}")
    ]
    function = "numaforge.run.topology.capture"
    answers = ask_all(inventory, limits, function, CAPTURED, "asking every host what it is", words)
    return answers, {
        name: answers.events[name]["file"] for name in answers.settings if name not in answers.failed
    }


def _capture_all(inventory: str, folder: str | None, limits: Sequence[str], data: Sequence[str]) -> ExitCode:
    """Save each host's snapshot in a folder; print why others have none."""
    if folder is None or folder == "-":
        raise click.UsageError("the snapshots of an inventory go into a folder: --to DIR")
    if data:
        raise click.UsageError("--data is for one HOST; an INVENTORY has its own data")
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise HostError("is no folder", where=folder, remedy="name a folder for the snapshots of the hosts")
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


def captured(host: str, data: Sequence[str]) -> Snapshot:
    """Return a host's snapshot; `data` has KEY=VALUE pairs for pyinfra. Raises HostError."""
    return asked_of(host, data, _capture, f"asking {host}")


def _capture(name: str, connection: Mapping[str, str | int]) -> Snapshot:
    from numaforge.run.hosts import capture as capture_from

    return capture_from(name, connection)


def asked_of(
    host: str, data: Sequence[str], ask: Callable[[str, Mapping[str, str | int]], Answer], activity: str
) -> Answer:
    """Return a host's answer; `ask` gets its name and pyinfra's connection data. Raises HostError.

    A terminal shows `activity` meanwhile.
    """
    name, connection = address(host)
    for entry in data:
        key, equals, value = entry.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{entry!r} is not KEY=VALUE", param_hint="--data")
        connection[key] = _checked(key, value)
    from gevent import monkey  # type: ignore[import-untyped]  # pyinfra does so when it is imported

    monkey.patch_all()  # before the spinner: gevent does not find a thread that it has not started
    with progress(activity), _log_of_pyinfra() as log:
        try:
            return ask(name, connection)
        except HostError as error:
            reasons = [line.removeprefix(f"[{name}] ") for line in log if line.startswith(f"[{name}] ")]
            message, remedy = " ".join([error.message, *reasons]), error.remedy
            if isinstance(error, HostUnreachableError):
                from numaforge.machine.topology.ready import NO_HOST, ready_machines

                if name in ready_machines():
                    message = f"{NO_HOST}, and no host of that name answers: {message}"
                    remedy = f"name a host; `numaforge topology {name} -o json` saves what the machine is"
                elif Path(name).exists():
                    activity = "folder" if Path(name).is_dir() else "file"
                    message = f"is a {activity}, and no host of that name answers: {message}"
                    remedy = "name a host, or an inventory: a file NAME.py, a folder with an inventory.py"
            raise type(error)(message, where=error.where, remedy=remedy) from error


@contextmanager
def _log_of_pyinfra() -> Iterator[list[str]]:
    """Collect pyinfra's log lines, so that a failure prints one message."""
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


def address(host: str) -> tuple[str, dict[str, str | int]]:
    """Split `user@name:port` into pyinfra's name and data; the names of other connectors stay whole.

    Raises BadParameter for an invalid host name.
    """
    if host.startswith("@"):
        return host, {}
    user, _, name = host.rpartition("@")
    connection: dict[str, str | int] = {"ssh_user": user} if user else {}
    address = re.fullmatch(r"\[(.+)\](?::(\d+))?|([^:]+):(\d+)", name)
    if address:
        bracketed, bracketed_port, plain, plain_port = address.groups()
        name, port = bracketed or plain, bracketed_port or plain_port
        if port:
            connection["ssh_port"] = _port(port, "HOST")
    from numaforge.report.hostnames import is_host_name

    if not is_host_name(name):
        raise click.BadParameter(
            f"{host!r} is not a host name; write a name, an address or an alias of ~/.ssh/config, such as "
            "ubuntu@gpu-1:2222, or a connector such as @local",
            param_hint="HOST",
        )
    return name, connection


def _checked(key: str, value: str) -> str | int:
    """Return a value of host data as pyinfra's type: text, number or boolean."""
    from numaforge.run.hosts.host_data import mistakes_in, not_known

    hint = f"--data {key}"
    if key == "ssh_port":
        return _port(value, hint)
    if key == "ssh_key" and not Path(value).expanduser().is_file():
        raise click.BadParameter(f"there is no file {value}", param_hint=hint)
    if unknown := not_known(key):
        raise click.BadParameter(unknown, param_hint=hint)
    if not key.startswith(_OF_SSH):
        number = digits(value)
        return value if number is None else number
    readings = (value, digits(value), {"true": True, "false": False}.get(value.lower()))
    valid = [one for one in readings if one is not None and not mistakes_in({key: one})]
    if not valid:
        raise click.BadParameter(mistakes_in({key: value})[key], param_hint=hint)
    return valid[0]


def _port(text: str, hint: str) -> int:
    port = digits(text)
    if port is None or not 1 <= port <= 65535:
        raise click.BadParameter(f"{text!r} is not a port; write 1 to 65535", param_hint=hint)
    return port
