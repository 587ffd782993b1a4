"""Hosts' output through pyinfra: limited, and without terminal control sequences."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

import gevent  # type: ignore[import-untyped]
from pyinfra.api import Host, output
from pyinfra.connectors.util import CommandOutput, OutputLine

from numaforge.lib.bounded import Allowance, TooMuchOutputError
from numaforge.report.printable import plain

_CHUNK = 2**16
_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
"""What sets a colour (ECMA-48, Select Graphic Rendition), which pyinfra's own lines have."""


class CutOffOutputError(TooMuchOutputError, OSError):
    """A host sends more than the limit; pyinfra treats it as a connection error of that host."""


def read_output(
    stdout_buffer: Any, stderr_buffer: Any, timeout: int | None, print_output: bool, print_prefix: str
) -> CommandOutput:
    """Return both outputs' lines as they arrive, for pyinfra; raises CutOffOutputError, TimeoutError."""
    allowance = Allowance()
    lines: list[OutputLine] = []

    def read(name: str, chunks: Iterable[bytes], style: Callable[[str], str]) -> TooMuchOutputError | None:
        try:
            for line in _lines(allowance.spend(chunk) for chunk in chunks):
                lines.append(OutputLine(name, line))
                if print_output:
                    output.echo(f"{print_prefix}{style(plain(line))}", err=True)
        except TooMuchOutputError as error:
            return error
        return None

    readers = [
        gevent.spawn(read, "stdout", _chunks("stdout", stdout_buffer), str),
        gevent.spawn(
            read, "stderr", _chunks("stderr", stderr_buffer), lambda line: output.format_text(line, "red")
        ),
    ]
    ended = 0
    try:
        for reader in gevent.iwait(readers, timeout=timeout):
            ended += 1
            if (refused := reader.get()) is not None:
                raise CutOffOutputError(refused.message)
    finally:
        gevent.killall(readers)
    if ended < len(readers):
        raise TimeoutError
    return CommandOutput(lines)


def _chunks(name: str, buffer: Any) -> Iterator[bytes]:
    """Yield what arrives; where the reading ends early, close the channel, which ends the host's program."""
    channel = getattr(buffer, "channel", None)
    receive: Callable[[int], bytes] = buffer.readline
    if channel is not None:
        receive = channel.recv if name == "stdout" else channel.recv_stderr
    complete = False
    try:
        while chunk := receive(_CHUNK):
            yield chunk
        complete = True
    finally:
        if not complete:
            (channel or buffer).close()


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    begun: list[bytes] = []
    for chunk in chunks:
        first, *further = chunk.split(b"\n")
        begun.append(first)
        for following in further:
            yield b"".join(begun).decode("utf-8", "replace")
            begun = [following]
    if last := b"".join(begun):
        yield last.decode("utf-8", "replace")


def as_text(print_lines: Callable[[Host, CommandOutput], None]) -> Callable[[Host, CommandOutput], None]:
    """Show lines without terminal control sequences."""

    @wraps(print_lines)
    def print_text(host: Host, output: CommandOutput) -> None:
        print_lines(host, CommandOutput([OutputLine(line.buffer_name, plain(line.line)) for line in output]))

    return print_text


def steers_nothing(record: logging.LogRecord) -> bool:
    """Remove control sequences other than colours from a line of pyinfra's log: errors may quote hosts."""
    parts = _SGR.split(record.getMessage())
    record.msg, record.args = "".join(part if _SGR.fullmatch(part) else plain(part) for part in parts), ()
    return True
