"""PCIe access control: set by the kernel at boot, and proved here in the bridges themselves.

A kernel that does not know pci=config_acs= ignores it, yet shows it in its command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.node.part import NodeState, Part, lines
from numaforge.roles.kernel_cmdline import part as kernel_cmdline

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "pcie_acs"


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that proves the bridges where the kernel's command line changes."""
    acs = goal.plan.acs
    changes = any(part.name == kernel_cmdline.NAME for part in below)
    return part(acs.masks, acs.bridges) if acs.masks and changes else None


def part(masks: Mapping[str, str], bridges: Mapping[str, str]) -> Part:
    """Return the part that proves the mask of each bridge, by PCI address; `bridges` has their ids."""
    return Part(
        NAME,
        sentences=(f"after the boot {len(masks)} PCIe bridges have to control access as planned",),
        data={"masks": lines(*(f"{address} {bridges[address]} {mask}" for address, mask in masks.items()))},
        drains=True,
    )
