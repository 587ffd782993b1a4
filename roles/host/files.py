"""The userland: limits, packages that stay at their version, swap that stays off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import PLAN_PATH, PlannedFile
from numaforge.machine.snapshot.catalogue import SWAP_SERVICES
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.runtime import may_be_limited
from numaforge.roles.host.plan import pam_limits, unit_limits, upgrade_patterns

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

PAM_LIMITS_PATH = "/etc/security/limits.d/90-numaforge.conf"
UPGRADES_PATH = "/etc/apt/apt.conf.d/52numaforge-hold"
SWAP_PATH = "/etc/systemd/system/swap.d/90-numaforge.conf"


def _values(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {
        "pam_limits": pam_limits(plan.host),
        "unit_limits": unit_limits(plan.host),
        "upgrade_patterns": upgrade_patterns(plan.host),
        "plan_path": PLAN_PATH,
    }


TEMPLATES = dict.fromkeys(
    ("host/limits.conf.j2", "host/unit-limits.conf.j2", "host/hold.conf.j2", "host/no-swap.conf.j2"), _values
)


def limits_path(unit: str) -> str:
    """Return the drop-in with the limits of a unit."""
    return f"/etc/systemd/system/{unit}.d/90-numaforge-limits.conf"


def no_swap_path(unit: str) -> str:
    """Return the drop-in that keeps a service from creating swap."""
    return f"/etc/systemd/system/{unit}.d/90-numaforge.conf"


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files of the userland."""
    host = plan.host
    of_units = bool({"nofile", "stack", "core"} & {*host.limits})
    templates = {
        PAM_LIMITS_PATH: ("host/limits.conf.j2", bool(host.limits)),
        **{limits_path(unit): ("host/unit-limits.conf.j2", of_units) for unit in host.limited_units},
        SWAP_PATH: ("host/no-swap.conf.j2", host.swap_off),
        **{no_swap_path(unit): ("host/no-swap.conf.j2", host.swap_off) for unit in host.swap_services},
        UPGRADES_PATH: ("host/hold.conf.j2", bool(host.hold_kinds) and host.package_manager == "apt"),
    }
    return tuple(
        PlannedFile(path, "host", template) for path, (template, is_needed) in templates.items() if is_needed
    )


def paths(plan: NodePlan, machine: NodeTopology) -> tuple[str, ...]:
    """Return the files of the userland, and the drop-in of each unit whose limits pods inherit."""
    return (
        PAM_LIMITS_PATH,
        UPGRADES_PATH,
        SWAP_PATH,
        *(no_swap_path(f"{name}.service") for name in SWAP_SERVICES),
        *(limits_path(unit) for unit in may_be_limited(machine.kubelet)),
    )
