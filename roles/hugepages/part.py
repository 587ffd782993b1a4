"""Hugepage pools per NUMA node: all are filled, or none, while the kubelet is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.lib.file_content import FileContent
from numaforge.lib.shell import line
from numaforge.node.bundle import changes
from numaforge.node.part import Look, NodeState, Part, lines
from numaforge.roles.hugepages.expected import by_path, expected, pool_pages
from numaforge.roles.hugepages.plan import WantedPages

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "hugepages"
NO_SUCH_POOL = "this kernel has no such pool"
OTHER_SIZES = "choose a hugepage size that /sys/devices/system/node/node*/hugepages lists"
_FILL_SECONDS = 600  # one CPU clears every page: minutes for 2 TiB


def look(goal: Goal) -> Look:
    """Return what to read: the pools that the plan names."""
    return Look(values=tuple(row.path for row in expected(goal.plan)))


def pools_found(goal: Goal, state: NodeState) -> WantedPages:
    """Return the pages of the plan's pools that exist on the host."""
    return {
        node_id: {
            size: int(state.values[path])
            for size in pools
            if (path := pool_pages(node_id, size)) in state.values
        }
        for node_id, pools in goal.plan.hugepages.pages.items()
    }


def change_with_kubelet(goal: Goal, state: NodeState) -> bool:
    """Whether the pools are changed with the kubelet stopped: where it may start at any moment."""
    return goal.plan.kubelet is not None and state.unit().may_start


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that changes the pools; None where none changes.

    Raises HostError for a pool that the kernel does not have, and where a kubelet runs that may not restart.
    """
    current = by_path(pools_found(goal, state))
    changed = {row.path: int(row.value) for row in expected(goal.plan) if row.differences(state.values)}
    if not changed:
        return None
    with_kubelet = change_with_kubelet(goal, state)
    if with_kubelet and "kubelet" not in goal.roles:
        raise _beside_kubelet(changed, current)
    if not with_kubelet and "hugepages" not in goal.roles:
        return None
    return part(changed, current)


def part(targets: Mapping[str, int], current: Mapping[str, int]) -> Part:
    """Return the part that sets the pages of each pool, by `nr_hugepages` path.

    Raises HostError for a pool that the kernel does not have.
    """
    if missing := sorted({*targets} - {*current}):
        raise HostError(NO_SUCH_POOL, where=", ".join(missing), remedy=OTHER_SIZES)
    pools = sorted(targets.items())
    return Part(
        NAME,
        moves=tuple(f"{path}: {current[path]} -> {pages}" for path, pages in pools),
        data={"planned": lines(*(f"{pages} {line(path)}" for path, pages in pools))},
        settings={"NO_SUCH_POOL": f"{NO_SUCH_POOL}; {OTHER_SIZES}"},
        drains=True,
        restarts_kubelet=True,
        apply_seconds=_FILL_SECONDS,
        undo_seconds=_FILL_SECONDS,
        boot_seconds=_FILL_SECONDS,
    )


def _beside_kubelet(targets: Mapping[str, int], current: Mapping[str, int]) -> HostError:
    path, pages = next(iter(sorted(targets.items())))
    further = f" (one of {len(targets)} pools that differ)" if len(targets) > 1 else ""
    return HostError(
        f"{pages} huge pages are planned, and there are {current.get(path, 'none')}{further}; but the "
        "kubelet runs: it offers what it found when it started, and may not start again with anything else",
        where=path,
        remedy="deploys/site.py or deploys/kubelet.py changes both together, and drains the node for that",
    )


def files_on_node(
    goal: Goal, state: NodeState, files: list[FileContent], absent: list[str]
) -> tuple[list[FileContent], list[str]]:
    """Return no files where only the kubelet's role is applied and it is down: the pools stay as they are."""
    called = "hugepages" in goal.roles
    if called or not changes(files, absent, state.files) or change_with_kubelet(goal, state):
        return files, absent
    return [], []
