"""Which host a node is, as it reads it itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numaforge import shell
from numaforge.errors import HostUnreachableError


@dataclass(frozen=True)
class Identity:
    """Which host it is, and since when it runs, as it reads it itself; None where it cannot be read."""

    boot_id: str | None = None
    machine_id: str | None = None
    system_uuid: str | None = None


def identity_script() -> str:
    """Return the script whose output `read_identity` reads."""
    return shell.library("node/identity") + shell.call("tell_identity")


def read_identity(output: Sequence[str]) -> Identity:
    """Read what `identity_script` printed.

    Raises HostUnreachableError for an answer that is cut off: the host may be on its way down.
    """
    if not output or output[-1] != "end":
        raise HostUnreachableError("the answer about the host's identity is cut off", remedy="run again")
    values = dict(line.partition(" ")[::2] for line in output[:-1])
    return Identity(**{name: value.strip().lower() or None for name, value in values.items()})
