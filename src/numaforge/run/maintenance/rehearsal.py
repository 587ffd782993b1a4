"""The rehearsal of a host's change within a run of pyinfra."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from numaforge.lib.errors import ExitCode, HostError
from numaforge.roles.kubelet.rehearsal import is_wanted, refusal, rehearse
from numaforge.run.hosts.scripts import reached

if TYPE_CHECKING:
    from pyinfra.api import Host

    from numaforge.change.goal import Goal
    from numaforge.change.transaction import Transaction
    from numaforge.node.part import NodeState


class RefusedPlanError(HostError):
    """The kubelet refused the plan in its rehearsal; nothing was changed."""

    exit_code = ExitCode.BLOCKED


def rehearsed_on(host: Host, goal: Goal, state: NodeState, transaction: Transaction | None) -> str:
    """Rehearse a change of what a kubelet starts with; return why it must not be made, "" where it may."""
    if transaction is None or not is_wanted(goal, transaction):
        return ""
    rehearsed = rehearse(goal, state, partial(reached, host))
    reason = refusal(goal, rehearsed)
    if not reason:
        for line in rehearsed.lines:
            host.log(line)
    return reason
