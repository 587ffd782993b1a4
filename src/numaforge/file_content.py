"""A file that numaforge writes to a host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileContent:
    """A file as it is to be: text, mode in octal digits, owner and group by name."""

    path: str
    text: str
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
