"""The parts of a maintenance, the lowest first: undone downwards, started and proved upwards.

A part is a folder here, with its shell (part.sh, and look.sh for what it has to know), and its line in KINDS.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from numaforge.node.part import Kind
from numaforge.node.parts import (
    files,
    hugepages,
    kernel_cmdline,
    kernel_values,
    kubelet,
    mig,
    mig_mode,
    reboot,
)

KINDS: tuple[Kind, ...] = (
    files,
    kernel_cmdline,
    mig_mode,
    reboot,
    kernel_values,
    hugepages,
    mig,
    kubelet,
)


def shell_of(names: Iterable[str]) -> list[str]:
    """Return the names of the shell files of parts, as `shell.library` takes them."""
    return [
        f"node/parts/{name}/{file.stem}"
        for name in names
        for file in sorted((Path(__file__).parent / name).glob("*.sh"))
        if file.stem != "look"
    ]
