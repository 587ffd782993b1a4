"""The userland, as it is now: packages, limits, clock, control groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from numaforge.lib import shell
from numaforge.roles.host.files import limits_path
from numaforge.roles.host.plan import unit_limits
from numaforge.roles.promise import Promise, Table, require, require_equal

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def held_packages(plan: NodePlan) -> Table:
    """Each package that stays at its version."""
    return dict.fromkeys(plan.host.holds, True)


def limits(plan: NodePlan) -> Table:
    """The planned limits of each unit, once it has started with them.

    The kubelet's open files are left out: it sets maxOpenFiles itself (cmd/kubelet/app/server.go).
    """
    directives = unit_limits(plan.host)
    return {
        f"{unit}-{name}": (unit, limits_path(unit), name, value)
        for unit in plan.host.limited_units
        for name, value in directives.items()
        if (unit, name) != ("kubelet.service", "LimitNOFILE")
    }


def clock(plan: NodePlan) -> Table:
    """A synchronised clock, where the plan requires one."""
    return {"synchronised": "yes"} if plan.host.time_sync else {}


def cgroup(plan: NodePlan) -> Table:
    """The version of control groups, where the plan requires one."""
    return {f"v{plan.host.cgroup}": plan.host.cgroup} if plan.host.cgroup else {}


def _units(plan: NodePlan) -> tuple[str, ...]:
    return plan.host.limited_units if unit_limits(plan.host) else ()


def _asks(plan: NodePlan) -> Iterator[str]:
    """Yield the shell calls that print the userland; the one for packages needs the part's look.sh."""
    host = plan.host
    if units := _units(plan):
        yield shell.call("tell_limits", units)
    if host.time_sync:
        yield shell.call("tell_clock")
    if host.cgroup:
        yield shell.call("tell_cgroup")
    if host.holds:
        yield shell.library("roles/host/look") + shell.call("tell_held", [host.package_manager or ""])


def _package_is_held(node: VerifiedNode, name: str, expected: bool) -> None:
    is_held = f"held {name}" in node.live.of("host")
    require(is_held is expected, "the package is not held at its version, planned held")


def _limit(node: VerifiedNode, name: str, expected: tuple[str, str, str, str]) -> None:
    unit, drop_in, limit, value = expected
    if not node.live.started_with(unit, drop_in):
        pytest.skip(f"{unit} has not started since {drop_in} was written")
    limit_now = node.live.of("host").get(f"{limit} {unit}", "").replace("unlimited", "infinity")
    require_equal(limit_now or None, value)


def _clock(node: VerifiedNode, name: str, expected: str) -> None:
    require_equal(node.live.of("host").get("clock"), expected, "timedatectl: NTPSynchronized")


def _control_groups(node: VerifiedNode, name: str, expected: int) -> None:
    require_equal(node.live.of("host").get("cgroup"), str(expected), "/sys/fs/cgroup")


PROMISES = (
    Promise("package_is_held", held_packages, _package_is_held, asks=_asks),
    Promise("limit", limits, _limit, units=_units, properties=("MainPID",)),
    Promise("clock", clock, _clock),
    Promise("control_groups", cgroup, _control_groups),
)
