"""The parts of a maintenance, the lowest first: undone downwards, started and proved upwards.

A part is in the folder of its role: part.py, and its shell (part.sh, look.sh for what it has to know, other
files for both, but those that a verification or a boot runs; a verification has state.sh, too).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from numaforge import shell
from numaforge.maintenance.part import PartModule
from numaforge.roles import ROLES
from numaforge.roles.role import ALWAYS

_FOLDERS = {role.part.NAME: role.name for role in ROLES if role.part}
_ROLES = Path(__file__).parent.parent / "roles"
_FUNCTION = re.compile(r"^(\w+)\(\)", re.MULTILINE)

PART_MODULES: tuple[PartModule, ...] = tuple(role.part for role in ROLES if role.part)


def called(roles: Iterable[str]) -> Iterator[PartModule]:
    """Yield the parts of the roles that deploys have called by these names, the lowest first."""
    names = [*roles, *ALWAYS]
    return (role.part for role in ROLES if role.part and role.among(names))


def shell_of(names: Iterable[str]) -> list[str]:
    """Return the names of the shell files of parts, as `shell.library` takes them."""
    return [file for name in names for file in _files_of(name) if not file.endswith("/look")]


def refuse_incomplete(names: Iterable[str], script: str) -> None:
    """Raise ValueError for a script whose parts cannot be carried out.

    Each part has the verbs apply and undo, and each function of a part that is called is there.
    """
    needed = {f"{name}_{verb}" for name in names for verb in ("apply", "undo")}
    called = {*re.findall(r"\w+", re.sub(r"(^|\s)#.*", "", script))} & _functions()
    if lacking := sorted((needed | called) - {*_FUNCTION.findall(script)}):
        raise ValueError(f"the script of {', '.join(names)} lacks {', '.join(lacking)}")


@cache
def _functions() -> frozenset[str]:
    """Return the functions of all parts that have the name of a part before their own."""
    names = [kind.NAME for kind in PART_MODULES]
    found = _FUNCTION.findall(shell.library(*shell_of(names)))
    return frozenset(each for each in found if each.startswith(tuple(f"{name}_" for name in names)))


def look_shell_of(names: Iterable[str]) -> list[str]:
    """Return the names of the shell files with which these parts look at a node."""
    return [file for name in names for file in _files_of(name) if not file.endswith("/part")]


@cache
def _files_of(part: str) -> tuple[str, ...]:
    """Return the shell files of a part, each with its folder; found once, not for each host."""
    folder = _FOLDERS[part]
    return tuple(
        f"roles/{folder}/{file.stem}"
        for file in sorted((_ROLES / folder).glob("*.sh"))
        if file.stem not in ("probe", "at_boot")
    )
