"""Save what a host says about itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import root_option, snapshot_of
from numaforge.errors import HostError
from numaforge.report.terminal import progress, save

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.snapshot import Snapshot


@click.command()
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
@root_option
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
        snapshot = _captured_from(host, data) if host else snapshot_of(None, root)
    save(snapshot.to_json(), output)


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
