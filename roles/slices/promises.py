"""Where the system's own daemons run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numaforge.cpulist import format_cpulist, parse_cpulist
from numaforge.verification.promise import Promise, Table, asks_names

if TYPE_CHECKING:
    from numaforge.roles.node import NodePlan
    from numaforge.topology.model import CpuSet
    from numaforge.verification.live import VerifiedNode


def slices(plan: NodePlan) -> Table:
    """The CPUs of the system's own daemons, by slice."""
    return dict(sorted(plan.system.slices.items()))


def _effective(name: str) -> str:
    return f"/sys/fs/cgroup/{name}/cpuset.cpus.effective"


def _values(plan: NodePlan) -> list[str]:
    return [_effective(name) for name in sorted(plan.system.slices)]


def _daemons(node: VerifiedNode, name: str, expected: CpuSet) -> None:
    effective = node.value(_effective(name))
    processes = [said.split() for slice_, said in node.live.lines("process") if slice_ == name]
    if effective is None and not processes:
        pytest.skip(f"nothing runs in {name}")
    assert effective == format_cpulist(expected)
    elsewhere = {pid: cpus for pid, cpus in processes if not parse_cpulist(cpus) <= expected}
    assert elsewhere == {}, f"processes of {name} belong on the CPUs {format_cpulist(expected)}"


PROMISES = (Promise("daemons", slices, _daemons, values=_values, asks=asks_names("tell_slices", slices)),)
