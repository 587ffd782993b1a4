"""What a run prints about a host, each thing once."""

from __future__ import annotations

from collections.abc import Sequence

from pyinfra import logger
from pyinfra.api import Host
from pyinfra.api.output import format_text

from numaforge.node import bundle
from numaforge.node.bundle import FileChange


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
