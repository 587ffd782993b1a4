"""The present NIC settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numaforge.roles.promise import Promise, Table, asks_where, require_equal
from numaforge.roles.rdma.nics.files import NICS_PATH, NICS_SCRIPT_PATH

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.rdma.nics.plan import NicSetting
    from numaforge.verification.live import VerifiedNode


def nics(plan: NodePlan) -> Table:
    """Each NIC setting."""
    return {f"{setting.nic}-{setting.name}": setting for setting in plan.rdma.host.nics}


def _nic_setting(node: VerifiedNode, name: str, expected: NicSetting) -> None:
    actual = node.live.of("nic").get(name)
    if actual == "-" and expected.name != "max_read_request":
        pytest.skip("the host has no tool that shows it: mlnx_qos, for pfc also dcb")
    require_equal(actual, expected.value)


PROMISES = (
    Promise(
        "nic_setting", nics, _nic_setting, asks=asks_where(nics, "tell_nics", NICS_SCRIPT_PATH, NICS_PATH)
    ),
)
