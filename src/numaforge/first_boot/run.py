"""What a node does before its kubelet starts: it plans itself, and applies the plan in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from numaforge import __version__
from numaforge.errors import HostError, PlanError
from numaforge.first_boot.chosen import NamedProfile, chosen_profile
from numaforge.first_boot.hardware import require_expected
from numaforge.first_boot.here import ask
from numaforge.first_boot.settings import BootSettings, read_settings
from numaforge.first_boot.stamp import BootRecord, Inputs, inputs_script, stamp
from numaforge.maintenance.bundle import checksum
from numaforge.maintenance.carry import carry_out, settle
from numaforge.maintenance.look import look, question
from numaforge.maintenance.need import digest, need
from numaforge.maintenance.part import Goal
from numaforge.maintenance.transaction import Transaction
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.render import files_of
from numaforge.roles import ROLES
from numaforge.snapshot import from_local
from numaforge.topology import read_topology
from numaforge.topology.model import NodeTopology

UNALIGNED = {"name": "unaligned", "kubelet": {"state": "absent"}}
"""The profile of a node whose kubelet starts with the distribution's settings: our changes are reverted."""
UNALIGNED_BY = "on_change: start-unaligned"
_EVERYTHING = frozenset(role.called for role in ROLES)
_CONFIRM_SECONDS = 120
_BOOTS_WITH_IT = frozenset({"docker", "podman", "containerd"})  # engines start containers at each boot
_PAUSE_SECONDS = 1.0
Tell = Callable[[str], object]


@dataclass(frozen=True)
class Change:
    """What a node would change on itself; `changed` has the differences since it last planned itself."""

    chosen: NamedProfile
    goal: Goal
    inputs: Inputs
    changed: tuple[str, ...]
    transaction: Transaction | None

    @property
    def does(self) -> tuple[str, ...]:
        """A line for each change."""
        if self.transaction is None:
            return ()
        return (*self.transaction.sentences, *self.transaction.moves, *self.transaction.writes)


def prepare(tell: Tell, *, replan: bool = False) -> BootRecord:
    """Bring this node to its plan, and return how; then the kubelet may start.

    Raises NumaforgeError where it must not start: a profile that cannot be loaded or met, a changed machine
    that must be held, live pods that would be disturbed, a change that was undone.
    """
    found = foresee(tell, replan=replan)
    if found.transaction is not None:
        _refuse_with_work(found.transaction)
        for sentence in found.does:
            tell(sentence)
        carry_out(found.transaction, ask, ask, tell)
    record = BootRecord(
        profile=found.goal.plan.profile,
        named_by=found.chosen.by,
        plan=digest(found.goal),
        at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        version=__version__,
        did="; ".join(found.transaction.sentences) if found.transaction else "",
        changed=found.changed,
    )
    stamp(record, found.inputs, _sums(found.goal))
    return record


def foresee(tell: Tell, *, replan: bool = False, ends_what_was_left: bool = True) -> Change:
    """Return what this node needs to be as planned; raises as `prepare` does.

    With `replan`, a changed machine is planned again even where it must be held.
    """
    settings = read_settings()
    was, now = Inputs.kept(), Inputs("".join(f"{each}\n" for each in ask(inputs_script()).lines if each))
    again = was is not None and not now.is_of_another_machine(was)
    chosen = chosen_profile(settings)
    changed = (*now.differences(was), *_other_source(chosen)) if was and again else ()
    for sentence in changed:
        tell(sentence)
    if changed and settings.on_change == "hold" and not replan:
        raise HostError(
            "the machine is not what it was planned on: " + "; ".join(changed),
            remedy="bring it back, or have it planned anew: numaforge boot --replan",
        )
    machine = _whole(settings, tell)
    if kind := require_expected(machine):
        tell(f"the machine is as the image expects it: {kind}")
    try:
        goal = _goal(chosen, machine)
    except PlanError:
        if not (changed and settings.on_change == "start-unaligned"):
            raise
        chosen = NamedProfile(load_profile(UNALIGNED), UNALIGNED_BY)
        goal = _goal(chosen, machine)
    asked = question(goal)
    state = look(ask, asked)
    if state.unfinished and ends_what_was_left:
        tell(f"the transaction {state.unfinished.id} of an earlier boot has not ended: ending it")
        settle(ask, ask)
        return foresee(tell, replan=replan, ends_what_was_left=False)
    if state.unfinished:
        raise HostError(f"the transaction {state.unfinished.id} of an earlier boot does not end")
    return Change(chosen, goal, now, changed, need(goal, state))


def _other_source(chosen: NamedProfile) -> tuple[str, ...]:
    """Return the difference where another source names the profile than when the node last planned itself."""
    record = BootRecord.kept()
    if record is None or record.named_by == chosen.by or record.named_by == UNALIGNED_BY:
        return ()
    return (f"the profile was named by {record.named_by}, and is by {chosen.by}",)


def _goal(chosen: NamedProfile, machine: NodeTopology) -> Goal:
    plan = plan_node(machine, chosen.profile)
    return Goal(plan, machine, _EVERYTHING, confirm_seconds=_CONFIRM_SECONDS, ends_work=_BOOTS_WITH_IT)


def _whole(settings: BootSettings, tell: Tell) -> NodeTopology:
    """Return the machine once it has the GPUs that each node of its image has."""
    deadline = time.monotonic() + settings.wait_seconds
    machine = read_topology(from_local())
    while settings.gpus is not None and len(machine.gpus) < settings.gpus:
        if time.monotonic() >= deadline:
            raise HostError(
                f"{len(machine.gpus)} of {settings.gpus} GPUs are there after {settings.wait_seconds} s",
                remedy="look at lspci and dmesg; a node that has fewer needs an image that says so (gpus)",
            )
        tell(f"{len(machine.gpus)} of {settings.gpus} GPUs are there")
        time.sleep(_PAUSE_SECONDS)
        machine = read_topology(from_local())
    return machine


def _refuse_with_work(transaction: Transaction) -> None:
    """Refuse a change that disturbs pods or other work while there is some: it outlives the kubelet."""
    if transaction.ended_work:
        raise HostError(
            f"the node has to change, and would end work: {transaction.ended_work}",
            remedy=transaction.work.way_out(transaction.ends_work),
        )
    if transaction.disturbs and transaction.pods.may_run:
        raise HostError(
            f"the node has to change, and pods are alive: {transaction.pods.evidence}",
            remedy="drain it and end its pods, or reboot it",
        )


def _sums(goal: Goal) -> dict[str, str]:
    """Return the checksums of the files written for the kubelet, by path."""
    config = goal.machine.kubelet_config
    roles = (role for role in ROLES if role.called == "kubelet" and role.files)
    return {file.path: checksum(file.text) for role in roles for file in files_of(role, goal.plan, config)}
