"""Carry out a maintenance: one transaction on the node, within a roll-out where pods must leave."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from pyinfra import host

from numaforge.change.carry import carry_out, settle
from numaforge.change.look import GUARD, look
from numaforge.change.need import need, pending
from numaforge.lib.errors import HostError
from numaforge.roles.kubelet.rehearsal import is_wanted
from numaforge.rollout import events
from numaforge.rollout.configz import read_answer, why_unreadable
from numaforge.rollout.names import PLACE
from numaforge.rollout.options import START_KUBELET
from numaforge.rollout.patience import patiently
from numaforge.rollout.steps import run
from numaforge.run.hosts.connection import access_to
from numaforge.run.hosts.display import show_change, show_end, show_progress, show_unfinished
from numaforge.run.hosts.interrupts import refuse_if_stopped
from numaforge.run.hosts.operations import COMMAND_SECONDS, Commands, host_command, host_operation
from numaforge.run.hosts.scripts import reached, reached_anew

from .rehearsal import RefusedPlanError, rehearsed_on
from .target import claims
from .turns import turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyinfra.api import Host

    from numaforge.change.transaction import Transaction
    from numaforge.lib.framing import Answer
    from numaforge.node.part import NodeState
    from numaforge.rollout.options import RolloutOptions

    from .target import Target

_LOOK_SECONDS = 120  # from the look at a host to the first attempt to change it
_CONFIGURED_BY = {
    "k3s": "/etc/rancher/k3s/config.yaml (kubelet-arg) and its unit",
    "RKE2": "/etc/rancher/rke2/config.yaml (kubelet-arg) and its unit",
    "MicroK8s": "/var/snap/microk8s/current/args/kubelet and `snap restart microk8s`",
}
_SETTLE = (
    "drain it and end its pods, then run again; a Node is known by its kubelet's --kubeconfig; or say in "
    f"{PLACE}.without_drain why its pods may be disturbed, which plain pyinfra obeys"
)


@host_operation
def maintain(target: Target, options: RolloutOptions, led: bool) -> Commands:
    """Bring a node to its plan: at once where no pod is disturbed, otherwise in one drain.

    + target: the wanted state of the node
    + options: how a cluster node is taken out of service for the change, and put back
    + led: whether `numaforge rollout` leads this run: then every host is changed and proved by a roll-out,
      and an unfinished roll-out of the node is looked for in the cluster
    """
    ask = partial(reached, host)
    by_rollout = target.joined and options.without_drain is None
    if target.joined:
        claims(options)[host.name] = target.node
    state = look(ask, target.question)
    if state.unfinished:
        show_unfinished(host, state.unfinished, drains=by_rollout or led)
        if by_rollout or led:  # the roll-out knows the node's phase in the cluster, and ends it
            _announce(target, options, None, (str(state.unfinished),), unfinished=True)
            yield host_command(_roll_out, target, options, led=led, in_place=led)
            return
        yield host_command(_settle)
        state = look(ask, target.question)

    resumes = by_rollout and (state.unproved is not None or led)
    transaction = _needed(target, options, state, resumes=resumes)
    drains = transaction is not None and transaction.drains
    unreadable = ""
    if by_rollout and drains:
        unreadable = why_unreadable(lambda: read_answer(ask(target.endpoint.script)))
    labels = target.relabelling if by_rollout else ()
    taken_out = by_rollout and (drains or bool(labels))
    unproved = [f"the transaction {state.unproved} is not proved yet"] if state.unproved else []
    more = (*labels, *unproved)
    _announce(target, options, transaction, more, unfinished=bool(unproved), unreadable=unreadable)
    users = transaction.work.users if transaction and transaction.spares else ()
    people = [f"logged in meanwhile: {', '.join(users)}"] if users else []
    show_change(
        host,
        transaction,
        pending(target.goal, state),
        labels=(*labels, *people),
        drains=taken_out,
        undrained=None if taken_out else options.without_drain,
    )
    if taken_out:
        from .rollout import refuse_without_means

        refuse_without_means(options)
    if led or taken_out or (by_rollout and state.unproved):
        refused = transaction is not None and (transaction.failed_before or transaction.undrainable)
        reason_unreadable = unreadable if drains and not refused else None
        yield host_command(
            _roll_out, target, options, led=led, in_place=led and not taken_out, unreadable=reason_unreadable
        )
    elif transaction is None:
        host.noop("the node is already as planned")
    else:
        yield host_command(_change, target, options, transaction)


def _needed(
    target: Target, options: RolloutOptions, state: NodeState, *, resumes: bool
) -> Transaction | None:
    """Return the transaction that a host needs, or None; raises HostError for one that is not made here.

    `resumes`: a roll-out of its node may be in progress, which knows more of it.
    """
    transaction = need(target.goal, state)
    if state.plans_itself and transaction is not None:
        raise HostError(
            "this node plans itself before each start of its kubelet, and would take back what is changed",
            remedy="write its profile to /etc/numaforge/profile.yaml and reboot it, replace it by one of a "
            f"newer image, or stop it from planning itself: `rm {GUARD}; systemctl daemon-reload`",
        )
    _refuse_undrained(target, options, transaction)
    if transaction is None or resumes:
        return transaction
    if transaction.failed_before:
        raise HostError(transaction.failed_before)
    if transaction.ended_work:
        raise HostError(
            f"nothing was changed, {transaction.ended_work}",
            remedy=f"{transaction.work.way_out(transaction.ends_work)}; or permit it by its kind, with the "
            f"reason, in {PLACE}.ends_work",
        )
    if transaction.undrainable and target.joined and options.without_drain is None:
        raise HostError(f"nothing was changed, {transaction.undrainable}", remedy=START_KUBELET)
    return transaction


def _refuse_undrained(target: Target, options: RolloutOptions, transaction: Transaction | None) -> None:
    """Raise HostError for a change that disturbs pods on a host that no drain can empty."""
    permitted = options.without_drain is not None and not events.heard()  # a roll-out drains what it changes
    if transaction is None or not transaction.disturbs or permitted:
        return
    planned = target.goal.plan.kubelet is not None
    if target.distribution is not None and not planned and (target.joined or transaction.drains):
        parts = ", ".join(part.name for part in transaction.parts if part.drains)
        raise HostError(
            f"nothing was changed, {target.distribution} runs this host's kubelet, and numaforge cannot "
            f"restart and prove it; what disturbs pods is not changed here: {parts}",
            remedy=f"set the kubelet up by {_CONFIGURED_BY[target.distribution]}; for the rest drain the "
            f"node, then say so in {PLACE}.without_drain, which plain pyinfra obeys",
        )
    if not target.joined and transaction.pods.may_run:
        raise HostError(
            "nothing was changed, pods run on a host that is not a known Node of a cluster: "
            f"{transaction.pods.evidence}",
            remedy=_SETTLE,
        )


def _announce(
    target: Target,
    options: RolloutOptions,
    transaction: Transaction | None,
    more: Sequence[str],
    *,
    unfinished: bool,
    unreadable: str = "",
) -> None:
    """Tell the process that started this run what the host needs: a transaction, and `more` lines."""
    if not events.heard():
        return
    does = list(more)
    if transaction is not None:
        lines = (*transaction.sentences, *transaction.moves) or transaction.writes
        does = [*(lines or ["its running configuration changes"]), *more]
    drains = transaction is not None and transaction.drains
    tray, tray_planned = target.trays
    events.record(
        "outlook",
        host.name,
        node=target.node,
        access=asdict(access_to(host)),
        joined=target.joined,
        restarts=drains,
        sentences=does if drains else (),
        changes=bool(does),
        reboots=transaction is not None and transaction.reboots,
        does=does,
        unfinished=unfinished,
        allocatable=target.expected.allocatable,
        labels=target.expected.labels,
        devices=sorted(target.expected.devices),
        unpins=target.unpins,
        options=options.model_dump(),
        said=sorted(options.model_fields_set),
        unreadable=unreadable,
        ended_work=transaction.ended_work if transaction else "",
        tray=tray and asdict(tray),
        tray_planned=tray_planned and asdict(tray_planned),
    )


def _roll_out(
    on: Host,
    target: Target,
    options: RolloutOptions,
    *,
    led: bool,
    in_place: bool,
    unreadable: str | None = None,
) -> None:
    """Change a host within its cluster, in its turn unless `led`; `unreadable` None: nothing just seen."""
    from .rollout import roll_out

    if led:
        roll_out(on, target, options, in_place=in_place, unreadable=unreadable)
        return
    with turn(on, options, counts=False) as own_turn:
        fresh = None if own_turn.late else unreadable
        roll_out(on, target, options, in_place=in_place, unreadable=fresh)


def _settle(on: Host) -> None:
    refuse_if_stopped()
    settle(partial(reached, on, seconds=COMMAND_SECONDS), partial(reached_anew, on))


def _change(on: Host, target: Target, options: RolloutOptions, planned_change: Transaction) -> None:
    """Change a host without pods to move, with retries; after a wait for its turn it is looked at again."""

    def ask(script: str) -> Answer:
        seconds = options.unreachable_timeout
        return run(patiently(partial(reached, on, script), tell=on.log, patience_seconds=seconds))

    with turn(on, options, counts=planned_change.disturbs or options.says_how_many) as own_turn:
        transaction: Transaction | None = planned_change
        if own_turn.late:
            transaction = _needed(target, options, look(ask, target.question), resumes=False)
            if transaction and transaction.drains and target.joined and options.without_drain is None:
                raise HostError("nothing was changed, its node now needs a drain", remedy="run again")
        if transaction is None:
            show_end(on, "it is as planned")
            return
        if is_wanted(target.goal, transaction):
            state = look(ask, target.question)
            if reason := rehearsed_on(on, target.goal, state, transaction):
                raise RefusedPlanError(f"nothing was changed, {reason}")
        good_for = int(options.unreachable_timeout) + _LOOK_SECONDS
        result = carry_out(
            replace(transaction, good_for_seconds=good_for),
            ask,
            partial(reached_anew, on),
            on.log,
            partial(show_progress, on),
        )
        reason = result.reason or "the node is as planned"
        on.log(f"{result.outcome}: {reason}")
        show_end(on, reason)
