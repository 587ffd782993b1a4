"""Where the system's own daemons run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.roles.promise import Promise, Table, asks_names, require

if TYPE_CHECKING:
    from numaforge.machine.topology.model import CpuSet
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode

_SHOWN = 4


def slices(plan: NodePlan) -> Table:
    """The CPUs of the system's own daemons, by slice."""
    return dict(sorted(plan.system.slices.items()))


def _daemons(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    processes = [text.split() for slice_, text in node.live.lines("process") if slice_ == name]
    if not processes:
        pytest.skip(f"nothing runs in {name}")
    elsewhere = {pid: cpus for pid, cpus in processes if not parse_cpulist(cpus) <= expected}
    places = ", ".join(f"{pid} on CPUs {cpus}" for pid, cpus in [*elsewhere.items()][:_SHOWN])
    more = f" and {len(elsewhere) - _SHOWN} more" if len(elsewhere) > _SHOWN else ""
    require(not elsewhere, f"process {places}{more}, planned on {format_cpulist(expected)}")


PROMISES = (Promise("daemons", slices, _daemons, asks=asks_names("tell_slices", slices)),)
