"""What a node does before its kubelet starts: it plans itself, and applies the plan in one transaction."""

import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from numaforge import __version__
from numaforge.change.goal import Goal
from numaforge.change.look import look, question
from numaforge.change.need import digest, need
from numaforge.change.transaction import Status, Transaction, settle_script, start_script
from numaforge.image.first_boot import stamp
from numaforge.image.first_boot.chosen import NamedProfile, chosen_profile
from numaforge.image.first_boot.hardware import require_expected
from numaforge.image.first_boot.settings import BootSettings, read_settings
from numaforge.image.first_boot.stamp import FAILED, TRIAL, BootRecord, Inputs
from numaforge.image.first_boot.trial import (
    BY_NODE,
    BY_PERSON,
    Tell,
    ask,
    conclude,
    follow,
    keep,
    not_tried_again,
    nothing_changed,
    status_of,
)
from numaforge.kubelet_minors.flags import kubeconfig_path
from numaforge.lib.errors import HostError, PlanError
from numaforge.lib.given import read_text
from numaforge.machine.snapshot.capture import from_local
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.node.bundle import checksum
from numaforge.node.part import NodeState
from numaforge.planning.files import WRITERS
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import files_of
from numaforge.roles.kubelet.rehearsal import Verdict, is_wanted, refusal, rehearse
from numaforge.roles.role import ROLES

UNALIGNED = {"name": "unaligned", "kubelet": {"state": "absent"}}
"""The profile of a node whose kubelet starts with the distribution's settings, our changes reverted."""
UNALIGNED_BY = "on_change: start-unaligned"
_EVERYTHING = frozenset(role.called for role in ROLES)
_BOOTS_WITH_IT = frozenset({"docker", "podman", "containerd"})  # engines start containers at each boot
_PAUSE_SECONDS = 1.0
_START_SECONDS = 300  # its disk is cold at a boot, and everything else starts as well
_GOOD_FOR_SECONDS = 600  # from the look at the node to its change, with a rehearsal of both configurations


class Change(NamedTuple):
    """What a node would change on itself; `changed` has the differences since it last planned itself."""

    chosen: NamedProfile
    goal: Goal
    inputs: Inputs
    changed: tuple[str, ...]
    transaction: Transaction | None
    state: NodeState

    @property
    def does(self) -> tuple[str, ...]:
        if self.transaction is None:
            return ()
        return (*self.transaction.sentences, *self.transaction.moves, *self.transaction.writes)

    def record(self, attempt: int = 1) -> BootRecord:
        return BootRecord(
            profile=self.goal.plan.profile,
            named_by=self.chosen.by,
            plan=digest(self.goal),
            at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            version=__version__,
            did="; ".join(self.transaction.sentences) if self.transaction else "",
            changed=self.changed,
            transaction=self.transaction.id if self.transaction else "",
            attempt=attempt,
        )


def prepare(say_line: Tell, *, replan: bool = False) -> BootRecord:
    """Bring this node to its plan, and return how; then the kubelet may start.

    A node with an earlier plan and a login tries a new one: it is undone unless the kubelet reaches the API
    server with it (`numaforge boot --report`), or an admin confirms it. After a failed trial, the record is
    of the earlier plan, with which the kubelet may start; `replan` tries again. Raises NumaforgeError where
    the kubelet must not start: an invalid or infeasible profile, a changed machine to hold, live pods in the
    way, a failed plan and no earlier one that fits the machine.
    """
    attempt, trial = 1, BootRecord.saved(TRIAL)
    if trial is not None:
        status = follow(trial)
        if status.waits:
            if not replan and (was := Inputs.saved()):
                _refuse_another_login(inputs_now(), was)
            return _on_trial(trial, status, say_line)
        is_same = Inputs.saved(TRIAL) == inputs_now()
        next_attempt = conclude(trial, status)
        attempt = next_attempt if is_same else 1
    why = "" if replan else failed_before()
    if why and (earlier := _instead_of_failed(why, say_line)):
        return earlier
    change = foresee(say_line, replan=replan, unaligned=bool(why))
    if change.transaction is None:
        return _stamped(change)
    _refuse_with_work(change.transaction)
    if why := _refused_by_kubelet(change, change.transaction, say_line):
        stamp.stamp(change.record(attempt), _inputs_of(change), _sums(change.goal), TRIAL)
        stamp.reject(why)
        return prepare(say_line)
    for sentence in change.does:
        say_line(sentence)
    return _try(change, change.transaction, attempt, say_line)


def _try(change: Change, transaction: Transaction, attempt: int, say_line: Tell) -> BootRecord:
    """Apply a change, and return the record of the plan with which the kubelet may start."""
    trial = change.record(attempt)
    stamp.stamp(trial, _inputs_of(change), _sums(change.goal), TRIAL)
    ask(start_script(transaction))
    status = follow(trial)
    if status.waits:
        return _on_trial(trial, status, say_line, change.goal.machine)
    if nothing_changed(status):
        conclude(trial, status)
        raise HostError(status.result.message if status.result else "the change did not begin")
    return prepare(say_line)  # concludes it


def _refused_by_kubelet(change: Change, transaction: Transaction, say_line: Tell) -> str:
    """Rehearse a change where it changes what a kubelet starts with; return the kubelet's refusal, or ""."""
    if not is_wanted(change.goal, transaction):
        return ""
    rehearsed = rehearse(change.goal, change.state, lambda script, _: ask(script))
    reason = refusal(change.goal, rehearsed)
    if not reason:
        for line in rehearsed.lines:
            say_line(line)
    elif rehearsed.verdict is Verdict.UNKNOWN:
        raise HostError(reason)
    return reason and not_tried_again(change.goal.plan.profile, "was not applied", reason)


def _instead_of_failed(why: str, say_line: Tell) -> BootRecord | None:
    """Return the record of the earlier plan, which is in effect again, if it is this machine's.

    None where the machine starts unaligned instead. Raises HostError where its kubelet must not start.
    """
    record, was, failed = BootRecord.saved(), Inputs.saved(), BootRecord.saved(FAILED)
    if record is not None and was is not None and inputs_now().is_of_this_machine(was) and stamp.are_intact():
        say_line(why)
        return record
    starts_unaligned = was is not None and read_settings().on_change == "start-unaligned"
    if starts_unaligned and failed is not None and failed.named_by != UNALIGNED_BY:
        return None
    raise HostError(why)


def foresee(
    say_line: Tell, *, replan: bool = False, unaligned: bool = False, ends_what_was_left: bool = True
) -> Change:
    """Return what this node needs to be as planned; raises as `prepare` does.

    With `replan`, plans a changed machine even where it must be held, or has the login of another one; with
    `unaligned`, for a kubelet with the distribution's settings.
    """
    settings = read_settings()
    was, inputs = Inputs.saved(), inputs_now()
    if was and not replan:
        _refuse_another_login(inputs, was)
    same_machine = was is not None and not inputs.is_of_another_machine(was)
    chosen = chosen_profile(settings)
    changed = (*inputs.differences(was), *_other_source(chosen)) if was and same_machine else ()
    for sentence in changed:
        say_line(sentence)
    holds = changed and settings.on_change == "hold" and not replan
    if holds and not (was and _is_joining(inputs, was, chosen)):
        raise HostError(
            "the machine is not what it was planned on: " + "; ".join(changed),
            remedy="bring it back, or plan it again: `numaforge boot --replan`",
        )
    machine = _complete_machine(settings, say_line)
    if kind := require_expected(machine):
        say_line(f"the machine is as the image expects it: {kind}")
    if unaligned:
        chosen = NamedProfile(load_profile(UNALIGNED), UNALIGNED_BY)
    try:
        goal = _goal(chosen, machine, settings)
    except PlanError:
        if not (changed and settings.on_change == "start-unaligned"):
            raise
        chosen = NamedProfile(load_profile(UNALIGNED), UNALIGNED_BY)
        goal = _goal(chosen, machine, settings)
    questions = question(goal)
    state = look(ask, questions)
    if state.unfinished and ends_what_was_left:
        say_line(f"the transaction {state.unfinished.id} of an earlier boot has not ended: ending it")
        ask(settle_script())
        return foresee(say_line, replan=replan, unaligned=unaligned, ends_what_was_left=False)
    if state.unfinished:
        raise HostError(f"the transaction {state.unfinished.id} of an earlier boot does not end")
    return Change(chosen, goal, inputs, changed, _by_itself(need(goal, state)), state)


def confirm() -> BootRecord:
    """Confirm the plan on trial for an admin; return its record."""
    trial = BootRecord.saved(TRIAL)
    if trial is None or not (status := status_of(trial)).waits:
        raise HostError("no plan is on trial on this node", remedy="see `numaforge boot --dry`")
    return keep(trial, status, BY_PERSON)


def why_not_planned() -> str:
    """Return why the node is not planned now: a plan is on trial, or has failed; "" where it is."""
    if (trial := BootRecord.saved(TRIAL)) is not None:
        return f"the plan of profile {trial.profile} is on trial since {trial.at}: {trial.did}"
    return failed_before()


def inputs_now() -> Inputs:
    """Return the current inputs of a plan."""
    return Inputs("".join(f"{line}\n" for line in ask(stamp.inputs_script()).lines if line))


def failed_before() -> str:
    """Return why the plan for the present inputs is not tried again, "" where it is."""
    failed = BootRecord.saved(FAILED)
    if failed is None or Inputs.saved(FAILED) != inputs_now():
        return ""
    return read_text(FAILED / stamp.WHY).strip()


def _stamped(change: Change) -> BootRecord:
    """Record that the node is as planned, and that is no news of who confirmed the plan."""
    record, earlier = change.record(), BootRecord.saved()
    if earlier is not None and earlier.plan == record.plan:
        record = replace(record, transaction=earlier.transaction, confirmed=earlier.confirmed)
    stamp.stamp(record, _inputs_of(change), _sums(change.goal))
    stamp.forget(FAILED)
    return record


def _inputs_of(change: Change) -> Inputs:
    """Return the inputs of a change: those before its look, or read again where other files count now."""
    return inputs_now() if stamp.watch(_kubelet_inputs(change.goal)) else change.inputs


def _kubelet_inputs(goal: Goal) -> tuple[str, ...]:
    """Return the kubelet's files that a plan depends on and does not write: program, settings, drop-ins."""
    kubelet, install = goal.plan.kubelet, goal.machine.kubelet
    if kubelet is None:
        return ()
    program = install.binary.split(" ", 3)[-1] if install and install.binary else None
    written = {file.path for file in goal.plan.files}
    paths = (program, kubelet.config_file, kubelet.config_dir)
    return tuple(path for path in paths if path and path not in written)


def _on_trial(
    trial: BootRecord, status: Status, say_line: Tell, machine: NodeTopology | None = None
) -> BootRecord:
    """Return the record of a plan on trial, with which the kubelet may start.

    A first plan has no predecessor, and a node without a login has no cluster: there the parts' proofs on the
    node suffice.
    """
    was = Inputs.saved()
    is_first = was is None or inputs_now().is_of_another_machine(was)
    if is_first or not _kubelet_login(machine or read_topology(from_local())).exists():
        return keep(trial, status, BY_NODE)
    say_line(
        f"the plan of profile {trial.profile} is on trial: it is undone unless the kubelet reaches the API "
        f"server within {read_settings().confirm_seconds} s, or a person keeps it: `numaforge boot --confirm`"
    )
    subprocess.run(["systemctl", "--no-block", "restart", stamp.REPORT_UNIT], check=False)
    return trial


def _is_joining(inputs: Inputs, was: Inputs, chosen: NamedProfile) -> bool:
    """Whether a node that has no login yet gets its kubelet's files, as `kubeadm join` writes them."""
    if _other_source(chosen) or not inputs.differs_in_kubelet_files_alone(was):
        return False
    return not _kubelet_login(read_topology(from_local())).exists()


def _by_itself(transaction: Transaction | None) -> Transaction | None:
    """Return a transaction as a node carries it out by itself.

    The kubelet starts before the change is confirmed. What disturbs it is undone by a boot then, before the
    kubelet starts again; a transaction that restarts the kubelet itself undoes itself.
    """
    if transaction is None:
        return None
    restarts = any(part.settings.get("KUBELET_RESTART") for part in transaction.parts)
    return replace(
        transaction, undone_by_boot=transaction.disturbs and not restarts, good_for_seconds=_GOOD_FOR_SECONDS
    )


def _other_source(chosen: NamedProfile) -> tuple[str, ...]:
    """Return the difference where the profile has another source than at the last planning."""
    record = BootRecord.saved()
    if record is None or record.named_by in (chosen.by, UNALIGNED_BY):
        return ()
    return (f"the profile was named by {record.named_by}, and is by {chosen.by}",)


def _goal(chosen: NamedProfile, machine: NodeTopology, settings: BootSettings) -> Goal:
    plan = plan_node(machine, chosen.profile)
    return Goal(
        plan,
        machine,
        _EVERYTHING,
        start_seconds=_START_SECONDS,
        confirm_seconds=settings.confirm_seconds,
        ends_work=_BOOTS_WITH_IT,
    )


def _complete_machine(settings: BootSettings, say_line: Tell) -> NodeTopology:
    """Return the machine once it has the GPUs that each node of its image has."""
    deadline = time.monotonic() + settings.wait_seconds
    machine = read_topology(from_local())
    while settings.gpus is not None and len(machine.gpus) < settings.gpus:
        if time.monotonic() >= deadline:
            raise HostError(
                f"{len(machine.gpus)} of {settings.gpus} GPUs are there after {settings.wait_seconds} s",
                remedy="look at lspci and dmesg; a node that has fewer needs an image that says so (gpus)",
            )
        say_line(f"{len(machine.gpus)} of {settings.gpus} GPUs are there")
        time.sleep(_PAUSE_SECONDS)
        machine = read_topology(from_local())
    return machine


def _kubelet_login(machine: NodeTopology) -> Path:
    """Return the file of the kubelet's login."""
    return Path(kubeconfig_path(machine.kubelet.flags if machine.kubelet else ()))


def _refuse_another_login(inputs: Inputs, was: Inputs) -> None:
    """Refuse a disk that has joined a cluster in another machine: both would run as the same Node."""
    login = _kubelet_login(read_topology(from_local())) if inputs.is_in_other_hardware(was) else None
    if login is not None and login.exists():
        planned, here = (each.values["system-uuid"] for each in (was, inputs))
        raise HostError(
            f"this disk was planned in the machine with the system UUID {planned}, is in {here}, and has the "
            f"first one's login to its cluster, {login}",
            remedy="if it was moved: `numaforge boot --replan`; if it is a copy: `kubeadm reset`, and join "
            "it as a Node of its own",
        )


def _refuse_with_work(transaction: Transaction) -> None:
    """Refuse a change that disturbs running pods or other work, which outlive the kubelet."""
    if transaction.ended_work:
        raise HostError(
            f"the node has to change, and {transaction.ended_work}",
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
    roles = (writer.role for writer in WRITERS if writer.role.called == "kubelet")
    return {file.path: checksum(file.text) for role in roles for file in files_of(role, goal.plan, config)}
