"""The parts of a maintenance, the lowest first: undone downwards, started and proved upwards.

A part is a folder here, with its shell (part.sh, look.sh for what it has to know, other files for both), and
its line in KINDS.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from numaforge.node.part import Kind
from numaforge.node.parts import (
    crio,
    files,
    hugepages,
    interrupts,
    kernel_cmdline,
    kernel_values,
    kubelet,
    memlock,
    mig,
    mig_mode,
    modules,
    nics,
    packages,
    pcie_acs,
    reboot,
    system,
)

KINDS: tuple[Kind, ...] = (
    files,
    packages,
    kernel_cmdline,
    modules,
    mig_mode,
    reboot,
    pcie_acs,
    kernel_values,
    nics,  # the number of its queues decides which interrupts there are
    interrupts,
    system,
    hugepages,
    mig,
    crio,
    memlock,
    kubelet,
)


def shell_of(names: Iterable[str]) -> list[str]:
    """Return the names of the shell files of parts, as `shell.library` takes them."""
    return _files_without("look", names)


def look_shell_of(names: Iterable[str]) -> list[str]:
    """Return the names of the shell files with which these parts look at a node."""
    return _files_without("part", names)


def _files_without(other: str, names: Iterable[str]) -> list[str]:
    return [
        f"node/parts/{name}/{file.stem}"
        for name in names
        for file in sorted((Path(__file__).parent / name).glob("*.sh"))
        if file.stem != other
    ]
