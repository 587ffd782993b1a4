"""The access control of each PCIe bridge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.findings.gpudirect.access_control import wrong_bits
from numaforge.lib import shell
from numaforge.roles.promise import Promise, Table, require

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def access_control(plan: NodePlan) -> Table:
    """The ids and the mask of each PCIe bridge, where a reboot for it is allowed."""
    acs = plan.acs
    planned = plan.kernel.cmdline and plan.kernel.reboot == "allowed"
    return {address: (acs.bridges[address], mask) for address, mask in acs.masks.items() if planned}


def _asks(plan: NodePlan) -> Iterator[str]:
    if plan.acs.masks:
        yield shell.library("roles/gpudirect/control") + shell.call("tell_bridges", [*plan.acs.masks])


def _pcie_access_control(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    ids, mask = expected
    identity, _, control = (node.live.of("bridge").get(name) or "").partition(" ")
    require(identity == ids, f"the bridge is {identity or 'absent'}, planned {ids}")
    require(not wrong_bits(mask, int(control)), f"access control is {int(control):#x}, planned {mask}")


PROMISES = (Promise("pcie_access_control", access_control, _pcie_access_control, asks=_asks),)
