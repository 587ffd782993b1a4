"""The parts of a maintenance, the lowest first: undone downwards, started and proved upwards.

A part is in the folder of its role: part.py, and its shell (part.sh, look.sh for what it has to know, other
files for both, but those that a verification or a boot runs; a verification has state.sh, too).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib import shell
from numaforge.lib.file_content import FileContent
from numaforge.node.part import Look, NodeState, Part, asks_nothing
from numaforge.roles import role
from numaforge.roles.amd_partitions import part as amd_partitions
from numaforge.roles.cpus.slices import part as slices
from numaforge.roles.crio import part as crio
from numaforge.roles.files import part as files
from numaforge.roles.gpudirect import part as gpudirect
from numaforge.roles.host import part as host
from numaforge.roles.host.memlock import part as memlock
from numaforge.roles.hugepages import part as hugepages
from numaforge.roles.imex import part as imex
from numaforge.roles.interrupts import part as interrupts
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kernel_values import part as kernel_values
from numaforge.roles.kubelet import part as kubelet
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.mode import part as mig_mode
from numaforge.roles.modules import part as modules
from numaforge.roles.rdma import files as rdma
from numaforge.roles.rdma.nics import part as nics
from numaforge.roles.reboot import part as reboot
from numaforge.roles.role import ALWAYS, Role
from numaforge.roles.watch import part as watch

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.planning.plan import NodePlan


class RolePart(NamedTuple):
    """The part of a role: the functions of its part.py, called where a deploy has called the role.

    `look` returns what the part needs to know of the node; `need` what the node needs, given the parts below
    it, None where it is as planned, and raises NumaforgeError for what cannot be carried out. `pending`
    returns a sentence for what is left alone, `nothing_to_do` an event and a sentence where a plan leaves all
    of the role alone.
    """

    role: Role
    name: str
    look: Callable[[Goal], Look]
    need: Callable[[Goal, NodeState, Sequence[Part]], Part | None]
    pending: Callable[[Goal, NodeState], str | None] | None = None
    nothing_to_do: Callable[[NodePlan], tuple[str, str] | None] | None = None


PARTS = (
    RolePart(role.files, files.NAME, files.look, files.need),
    RolePart(role.host, host.NAME, host.look, host.need),
    RolePart(
        role.kernel_cmdline,
        kernel_cmdline.NAME,
        kernel_cmdline.look,
        kernel_cmdline.need,
        pending=kernel_cmdline.pending,
    ),
    RolePart(role.modules, modules.NAME, modules.look, modules.need, pending=modules.pending),
    RolePart(role.mig_mode, mig_mode.NAME, asks_nothing, mig_mode.need, pending=mig_mode.pending),
    RolePart(role.reboot, reboot.NAME, reboot.look, reboot.need),
    RolePart(role.gpudirect, gpudirect.NAME, asks_nothing, gpudirect.need),
    RolePart(
        role.kernel_values,
        kernel_values.NAME,
        kernel_values.look,
        kernel_values.need,
        pending=kernel_values.pending,
    ),
    RolePart(role.nics, nics.NAME, nics.look, nics.need, pending=nics.pending),
    RolePart(role.interrupts, interrupts.NAME, interrupts.look, interrupts.need, pending=interrupts.pending),
    RolePart(role.slices, slices.NAME, slices.look, slices.need),
    RolePart(role.hugepages, hugepages.NAME, hugepages.look, hugepages.need),
    RolePart(role.mig, mig.NAME, mig.look, mig.need),
    RolePart(role.amd_partitions, amd_partitions.NAME, amd_partitions.look, amd_partitions.need),
    RolePart(role.imex, imex.NAME, imex.look, imex.need),
    RolePart(role.crio, crio.NAME, asks_nothing, crio.need),
    RolePart(role.memlock, memlock.NAME, memlock.look, memlock.need),
    RolePart(role.kubelet, kubelet.NAME, kubelet.look, kubelet.need, nothing_to_do=kubelet.nothing_to_do),
    RolePart(role.watch, watch.NAME, watch.look, watch.need),
)

FILES_ON_NODE: Mapping[
    Role, Callable[[Goal, NodeState, list[FileContent], list[str]], tuple[list[FileContent], list[str]]]
] = {
    role.modules: modules.files_on_node,
    role.hugepages: hugepages.files_on_node,
    role.rdma: rdma.files_on_node,
}
"""What reduces a role's files and absent paths to those that apply to a node."""

_FOLDERS = {part.name: part.role.folder for part in PARTS}
_ROLES = Path(__file__).parent.parent / "roles"
_PROGRAMS = ("arguments", "at_boot", "probe")
"""The shell files that units run on their own; of the others only functions are used."""
_FUNCTION = re.compile(r"^(\w+)\(\)", re.MULTILINE)


def called(roles: Iterable[str]) -> Iterator[RolePart]:
    """Yield the parts of the roles that deploys have called by these names, the lowest first."""
    names = [*roles, *ALWAYS]
    return (part for part in PARTS if part.role.among(names))


def shell_of(names: Iterable[str]) -> list[str]:
    """Return the names of the shell files of parts, as `shell.library` takes them."""
    return [file for name in names for file in _files_of(name) if not file.endswith("/look")]


def refuse_incomplete(names: Iterable[str], script: str) -> None:
    """Raise ValueError for a script without a verb of its parts, or a function of theirs that it calls."""
    needed = {f"{name}_{verb}" for name in names for verb in ("apply", "undo")}
    called = {*re.findall(r"\w+", re.sub(r"(^|\s)#.*", "", script))} & _functions()
    if lacking := sorted((needed | called) - {*_FUNCTION.findall(script)}):
        raise ValueError(f"the script of {', '.join(names)} lacks {', '.join(lacking)}")


@cache
def _functions() -> frozenset[str]:
    """Return the functions of all parts that have the name of a part before their own."""
    names = [part.name for part in PARTS]
    functions = _FUNCTION.findall(shell.library(*shell_of(names)))
    return frozenset(
        function for function in functions if function.startswith(tuple(f"{name}_" for name in names))
    )


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
        if file.stem not in _PROGRAMS
    )
