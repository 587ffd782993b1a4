"""Drop-ins that confine the slices of the system's own daemons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.file_content import PlannedFile, everywhere
from numaforge.roles.cpus.slices.section import SLICES

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def _slice(plan: NodePlan, file: PlannedFile) -> Mapping[str, Any]:
    """Return a slice's drop-in: it clears AllowedCPUs first, because systemd merges several files' lists."""
    name = file.path.split("/")[-2].removesuffix(".d")
    cpus = format_cpulist(plan.system.slices[name])
    return {"unit": [f"[{name.rpartition('.')[2].capitalize()}]", "AllowedCPUs=", f"AllowedCPUs={cpus}"]}


TEMPLATES = {"system/slice.conf.j2": _slice}


def slice_path(name: str) -> str:
    """Return the path of the drop-in of a slice or scope such as "system.slice"."""
    return f"/etc/systemd/system/{name}.d/90-numaforge.conf"


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the drop-ins that confine the slices from the next boot on."""
    return tuple(
        PlannedFile(slice_path(name), "system", "system/slice.conf.j2") for name in plan.system.slices
    )


paths = everywhere(*map(slice_path, SLICES))
