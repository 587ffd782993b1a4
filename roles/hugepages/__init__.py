"""Hugepage pools per NUMA node: now, and at every boot before memory is fragmented."""

from __future__ import annotations

from pyinfra import host

from numaforge.hosts import file_bundle, planned, role, values_script, will_read
from numaforge.kernel_paths import hugepage_counts
from numaforge.render import role_files

from .operations import FILES, hugepage_pools

__all__ = ["hugepages"]


@role("Hugepages")
def hugepages() -> None:
    """Write the pools for the next boot, then fill them now."""
    plan = planned(host)
    files = role_files(plan, "hugepages")
    written = [file.path for file in files]
    file_bundle(
        name="Write the hugepage pools for every boot",
        files=files,
        absent=[path for path in FILES if path not in written],
    )
    pools = hugepage_counts(plan)
    will_read(host, values_script(list(pools)))
    hugepage_pools(name="Fill the hugepage pools", pools=pools)
