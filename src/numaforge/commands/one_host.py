"""Ask one host over a connection of its own: `user@name:port`, and host data as KEY=VALUE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.lib.given import digits
from numaforge.report.terminal import progress

if TYPE_CHECKING:
    from numaforge.machine.snapshot.model import Snapshot

Answer = TypeVar("Answer")

_OF_SSH = "ssh_"


def captured(host: str, data: Sequence[str]) -> Snapshot:
    """Return a host's snapshot; `data` has KEY=VALUE pairs for pyinfra. Raises HostError."""

    def capture(name: str, connection: Mapping[str, str | int]) -> Snapshot:
        # after gevent has patched this process
        from numaforge.run.hosts.capture import answer_of
        from numaforge.run.hosts.facts import detect

        return answer_of(name, connection, detect)

    return asked_of(host, data, capture, f"asking {host}")


def asked_of(
    host: str, data: Sequence[str], ask: Callable[[str, Mapping[str, str | int]], Answer], activity: str
) -> Answer:
    """Return the answer of `ask`, which gets a host's name and connection data. Raises HostError."""
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
                from numaforge.machine.topology.saved import NO_HOST, ready_machines

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
