"""Hugepage pools per NUMA node: all are filled, or none, while the kubelet is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.errors import HostError
from numaforge.maintenance.part import Found, Goal, Look, Part, lines
from numaforge.roles.hugepages.paths import by_path, hugepage_counts, pool_pages
from numaforge.roles.hugepages.plan import pools_of
from numaforge.shell import line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numaforge.roles.hugepages.plan import WantedPages

NAME = "hugepages"
NO_SUCH_POOL = "this kernel has no such pool"
OTHER_SIZES = "choose a hugepage size that /sys/devices/system/node/node*/hugepages lists"
_FILL_SECONDS = 600  # one CPU clears every page: minutes for 2 TiB


def look(goal: Goal) -> Look:
    """Return what to read: the pools that the plan names."""
    return Look(values=tuple(hugepage_counts(goal.plan)))


def pools_found(goal: Goal, found: Found) -> WantedPages:
    """Return the pages of the plan's pools that exist on the host."""
    return {
        place: {
            size: int(found.values[path])
            for size in pools
            if (path := pool_pages(place, size)) in found.values
        }
        for place, pools in pools_of(goal.plan).items()
    }


def change_with_kubelet(goal: Goal, found: Found) -> bool:
    """Whether the pools are changed with the kubelet stopped: where it may start at any moment."""
    return goal.plan.kubelet is not None and found.unit().may_start


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:
    """Return the part that changes the pools; None where none changes.

    Raises HostError for a pool that the kernel does not have, and where a kubelet runs that may not restart.
    """
    now = by_path(pools_found(goal, found))
    wanted = {path: pages for path, pages in hugepage_counts(goal.plan).items() if now.get(path) != pages}
    if not wanted:
        return None
    with_kubelet = change_with_kubelet(goal, found)
    if with_kubelet and "kubelet" not in goal.roles:
        raise _beside_kubelet(wanted, now)
    if not with_kubelet and "hugepages" not in goal.roles:
        return None
    return part(wanted, now)


def part(wanted: Mapping[str, int], now: Mapping[str, int]) -> Part:
    """Return the part that sets the pages of each pool, by `nr_hugepages` path.

    Raises HostError for a pool that the kernel does not have.
    """
    if missing := sorted({*wanted} - {*now}):
        raise HostError(NO_SUCH_POOL, where=", ".join(missing), remedy=OTHER_SIZES)
    pools = sorted(wanted.items())
    return Part(
        NAME,
        moves=tuple(f"{path}: {now[path]} -> {pages}" for path, pages in pools),
        data={"planned": lines(*(f"{pages} {line(path)}" for path, pages in pools))},
        settings={"NO_SUCH_POOL": f"{NO_SUCH_POOL}; {OTHER_SIZES}"},
        drains=True,
        restarts_kubelet=True,
        apply_seconds=_FILL_SECONDS,
        undo_seconds=_FILL_SECONDS,
        boot_seconds=_FILL_SECONDS,
    )


def _beside_kubelet(wanted: Mapping[str, int], now: Mapping[str, int]) -> HostError:
    path, pages = next(iter(sorted(wanted.items())))
    others = f" (one of {len(wanted)} pools that differ)" if len(wanted) > 1 else ""
    return HostError(
        f"{pages} huge pages are planned, and there are {now.get(path, 'none')}{others}; but the kubelet "
        "runs: it offers what it found when it started, and may not start again with anything else",
        where=path,
        remedy="deploys/site.py or deploys/kubelet.py changes both together, and drains the node for that",
    )
