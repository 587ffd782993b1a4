"""Hugepage pools at every boot, before memory is fragmented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import PlannedFile, everywhere
from numaforge.roles.hugepages.expected import expected

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


HUGEPAGES_TMPFILES_PATH = "/etc/tmpfiles.d/numaforge-hugepages.conf"


def _pools(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {"hugepage_pools": {row.path: row.value for row in expected(plan)}}


TEMPLATES = {"hugepages/tmpfiles.conf.j2": _pools}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the file that fills the pools at every boot; empty without pools."""
    if not plan.hugepages.pools:
        return ()
    return (PlannedFile(HUGEPAGES_TMPFILES_PATH, "hugepages", "hugepages/tmpfiles.conf.j2"),)


paths = everywhere(HUGEPAGES_TMPFILES_PATH)
