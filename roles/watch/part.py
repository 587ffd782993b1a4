"""The timer of the node's watch: started, or removed with all its reports where the plan has no watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numaforge.lib.file_content import boot_link
from numaforge.node.part import Look, NodeState, Part, switched
from numaforge.roles.watch import files

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "watch"
BOOT_LINK = boot_link(files.WATCH_TIMER_PATH)
CONDITION = "numaforge.io/PlanDrift"
_SETTINGS = ("node", "folder", "kubeconfig")


def look(goal: Goal) -> Look:
    """Return the question for the earlier configuration, which names the metrics' folder, and the timer."""
    timer_wish = "timer" if goal.plan.watch else ""
    return Look(files=(files.WATCH_CONF_PATH,), call=("look_watch", BOOT_LINK, timer_wish))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part where the timer, the metrics' folder or reporting to the Node changes.

    After a boot in the middle of the change, nothing has to wait for it: the watch compares nothing while a
    change is in progress. (A unit before a timer would be before basic.target, and so before itself.)
    """
    answers, plan = state.answers(NAME), goal.plan.watch
    enabled, timer = answers.get("unit") == "enabled", answers.get("timer")
    earlier = settings_of(state.text(files.WATCH_CONF_PATH))
    folder = earlier.get("folder")
    leaves_folder = folder is not None and (plan is None or folder != plan.directory)
    untold = "kubeconfig" in earlier and (plan is None or plan.kubeconfig is None)
    moves = []
    if enabled is not (plan is not None):
        moves.append(switched(files.WATCH_TIMER, enabled=not enabled))
    if plan and timer is not None and timer != "active":
        moves.append(f"{files.WATCH_TIMER}: {timer or 'unknown'} -> active")
    if leaves_folder:
        moves.append(f"{folder}/numaforge.prom: removed")
    if untold:
        moves.append(f"the Node's condition {CONDITION}: removed")
    return part(tuple(moves), watches=plan is not None, leaves=leaves_folder or untold) if moves else None


def part(moves: tuple[str, ...], *, watches: bool, leaves: bool) -> Part:
    """Return the part that starts or ends the watch; `leaves`: the earlier metrics or condition must go."""
    return Part(
        NAME,
        moves=moves,
        settings={
            "WATCH_LINK": BOOT_LINK,
            "WATCH_LINK_TARGET": files.WATCH_TIMER_PATH if watches else "",
            "WATCH_LEAVES": "yes" if leaves else "",
            "WATCH_CONF": files.WATCH_CONF_PATH,
            "WATCH_SCRIPT": files.WATCH_SCRIPT_PATH,
            "WATCH_UNIT": files.WATCH_UNIT,
        },
        apply_seconds=60,  # the API server may not answer
        commit_seconds=60,
        undo_seconds=60,
    )


def settings_of(configuration: str | None) -> dict[str, str]:
    """Return a configuration's lines `node`, `folder` and `kubeconfig`, as far as it has them."""
    rows = (line.partition("\t") for line in (configuration or "").splitlines())
    return {key: value for key, _, value in rows if key in _SETTINGS}
