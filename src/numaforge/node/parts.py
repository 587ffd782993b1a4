"""The parts of a maintenance, the lowest first: undone downwards, started and proved upwards.

A part is in the folder of its role: part.py, and its shell (part.sh, look.sh for what it has to know, other
files for both).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from numaforge.node.part import PartModule
from numaforge.roles import ROLES

_FOLDERS = {role.part.NAME: role.name for role in ROLES if role.part}
_ROLES = Path(__file__).parent.parent / "roles"

PART_MODULES: tuple[PartModule, ...] = tuple(role.part for role in ROLES if role.part)


def shell_of(names: Iterable[str]) -> list[str]:
    """Return the names of the shell files of parts, as `shell.library` takes them."""
    return _files_without("look", names)


def look_shell_of(names: Iterable[str]) -> list[str]:
    """Return the names of the shell files with which these parts look at a node."""
    return _files_without("part", names)


def _files_without(other: str, names: Iterable[str]) -> list[str]:
    return [
        f"roles/{folder}/{file.stem}"
        for folder in (_FOLDERS[name] for name in names)
        for file in sorted((_ROLES / folder).glob("*.sh"))
        if file.stem not in (other, "probe")
    ]
