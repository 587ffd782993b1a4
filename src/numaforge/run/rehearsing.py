"""Rehearse the plan of a host without applying it: of one host by name, or of each of a pyinfra run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from numaforge.change.goal import Goal
from numaforge.change.look import look, question
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.read import read_topology
from numaforge.roles.kubelet.rehearsal import Rehearsed, rehearse, to_document
from numaforge.roles.role import ROLES
from numaforge.run.hosts.capture import answer_of
from numaforge.run.hosts.facts import as_root, detect
from numaforge.run.hosts.failures import record_answer
from numaforge.run.hosts.host_data import datum
from numaforge.run.hosts.roles import planned, seen

if TYPE_CHECKING:
    from pyinfra.api import Host

    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan

REHEARSED = "rehearsed"  # the kind of the event with a host's rehearsal
Planner = Callable[["NodeTopology"], "NodePlan"]


def rehearse_each() -> None:
    """Rehearse the plan of the host of this deploy, and record it for the process that started this run."""
    from pyinfra import host

    def answer() -> object:
        snapshot = detect(host)
        from .decide import remember_plan

        remember_plan(snapshot)
        return to_document(_rehearsed(host, seen(host), planned(host), datum(host, "kubelet_start_seconds")))

    record_answer(host, REHEARSED, answer)


def rehearse_host(name: str, data: Mapping[str, Any], plan: Planner) -> Rehearsed:
    """Connect to one host, plan it, rehearse the plan; raises HostError, and what `plan` raises."""

    def on_host(host: Host) -> Rehearsed:
        machine = read_topology(parse_output(as_root(host, script())))
        return _rehearsed(host, machine, plan(machine), datum(host, "kubelet_start_seconds"))

    return answer_of(name, data, on_host)


def _rehearsed(host: Host, machine: NodeTopology, plan: NodePlan, start_seconds: int) -> Rehearsed:
    goal = Goal(plan, machine, frozenset(role.called for role in ROLES), start_seconds=start_seconds)
    state = look(partial(as_root, host), question(goal))
    return rehearse(goal, state, partial(as_root, host))
