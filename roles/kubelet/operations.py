"""Change the kubelet's configuration: one transaction on the node, within a roll-out where it is joined."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from pyinfra import host
from pyinfra.api import Host

from numaforge import bundle
from numaforge.errors import HostError
from numaforge.hosts import (
    Commands,
    announce,
    host_command,
    host_operation,
    reached,
    script_command,
    script_output,
    show_changes,
    show_lines,
)
from numaforge.rollout.configz import read_answer, why_unreadable
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.patience import patiently
from numaforge.rollout.steps import run
from numaforge.rollout.transaction import (
    Transaction,
    read_status,
    settle_script,
    start_script,
    status_script,
)

from .facts import kubelet_files, kubelet_unit
from .rollout import announce_outlook, roll_out
from .target import Target

_LOOK_SECONDS = 120  # from the look at a host to the first attempt to change it


@host_operation
def kubelet_configuration(target: Target, options: RolloutOptions, ask_cluster: bool) -> Commands:
    """Write the kubelet's files, and restart it as one transaction where its effective settings change.

    + target: what the kubelet is to run with
    + options: how a node of a cluster is taken out of service for that, and put back
    + ask_cluster: also look in the cluster for a roll-out of this node that was left unfinished
    """
    ask = partial(script_output, host)
    by_rollout = target.joined and options.without_drain is None
    found = kubelet_files(ask, target.question)
    if found.unfinished:
        sentence = f"the transaction {found.unfinished} of an earlier run has not ended: ending it"
        announce(host, [sentence])
        if by_rollout:  # which knows how far the node is in the cluster, and ends it
            announce_outlook(host, target, options, [sentence])
            yield host_command(roll_out, target, options)
            return
        yield script_command(settle_script())
        found = kubelet_files(ask, target.question)

    need = target.need(found, lambda: kubelet_unit(ask, target.kubelet.unit))
    restarts = need is not None and need.restarts
    sentences = [*need.sentences, *need.moves] if need and restarts else []
    unreadable = (
        why_unreadable(lambda: read_answer(ask(target.door.script))) if by_rollout and restarts else ""
    )
    announce_outlook(host, target, options, sentences, unreadable)
    if need is not None:
        show_changes(host, need.changed)
        show_lines(host, need.moves)
        announce(host, need.sentences)
    if by_rollout and (restarts or found.unproved or ask_cluster):
        yield host_command(roll_out, target, options)
    elif need is None:
        host.noop("the kubelet is already configured as planned")
    elif need.transaction is None:
        yield script_command(bundle.write_script(need.changed))
    else:
        if restarts and target.joined:
            announce(host, [f"the node is not drained: {options.without_drain}"])
        yield host_command(_change, need.transaction, options.away_seconds)


def _change(on: Host, transaction: Transaction, away_seconds: float) -> None:
    """Carry out a transaction on a host without pods to move, and retry while the host is unreachable."""

    def answer(script: str) -> list[str]:
        return run(patiently(lambda: reached(on, script), tell=on.log, patience_seconds=away_seconds))

    answer(start_script(replace(transaction, good_for_seconds=int(away_seconds) + _LOOK_SECONDS)))
    ask = status_script(transaction.id, transaction.unit)
    while (result := (status := read_status("\n".join(answer(ask)))).result) is None:
        if status.broken_off:
            raise HostError(
                f"the transaction {transaction.id} was broken off", remedy="run again, which ends it first"
            )
        time.sleep(1)
    if result.outcome == "void":
        raise HostError(result.reason, remedy="run again")
    if result.outcome != "applied":
        raise HostError(result.message)
    on.log(f"{result.outcome}: {result.reason or 'the files are written'}")
