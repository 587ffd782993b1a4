"""What a run prints about a host, without repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyinfra.api import Host

from numaforge.lib.quantity import counted
from numaforge.lib.reasons import Notice
from numaforge.lib.unfinished import Unfinished
from numaforge.report.fleet import HostSummary, condensed
from numaforge.report.printable import plain
from numaforge.run.hosts.overview import overview

if TYPE_CHECKING:
    from numaforge.change.transaction import Transaction


def announce(host: Host, lines: Sequence[str]) -> None:
    """Announce an operation, once in a run, also where `-y` skips the preparation."""
    if not host.state.is_executing or not host.state.check_for_changes:
        for line in lines:
            host.log(plain(line))


def show_alone(host: Host, line: str) -> None:
    """Show what the plan's notices already contain, without an overview."""
    if overview() is None:
        host.log(plain(line))


def show_notices(host: Host, notices: Sequence[Notice]) -> None:
    """Show the notices of a host's plan: with the other hosts', or at once without an overview."""
    if (together := overview()) is not None:
        together.note(host, notices=tuple((notice.id, notice.message) for notice in notices))
    else:
        announce(host, [f"{notice.id}: {notice.message}" for notice in notices])


def show_change(
    host: Host,
    transaction: Transaction | None,
    pending: Sequence[str],
    *,
    drains: bool,
    labels: Sequence[str] = (),
    undrained: str | None = None,
) -> None:
    """Show what will change on a host, and what a later run does; `drains`: its pods leave.

    `undrained` is why they stay although the kubelet restarts; `labels` are changes of its Node's labels.
    """
    sentences = (*(transaction.sentences if transaction else ()), *labels)
    if undrained and transaction and transaction.drains:
        sentences = (*sentences, f"the node is not drained: {undrained}")
    changed = [change for part in transaction.parts for change in part.changed] if transaction else []
    moves = transaction.moves if transaction else ()
    if (together := overview()) is None:
        announce(host, [*pending, *condensed(moves), *sentences])
        return
    summary = HostSummary(
        host.name,
        state="to change" if transaction or labels else "unchanged",
        drains=drains,
        reboots=bool(transaction and transaction.reboots),
        sentences=sentences,
        moves=tuple(moves),
        changed=tuple(changed),
        pending=tuple(pending),
    )
    together.change(host, summary)
    if transaction and host.state.is_executing:
        counts = ((len(changed), "file"), (len(condensed(moves)), "value"))
        counts_text = [counted(count, noun) for count, noun in counts if count]
        host.log(
            f"changes {', '.join(counts_text) or 'its running configuration'}{', drained' if drains else ''}"
        )


def show_beside(host: Host, sentence: str, *, drains: bool = False) -> None:
    """Show what will change on a host besides its maintenance: with that, or at once."""
    if (together := overview()) is not None:
        summary = HostSummary(host.name, state="to change", sentences=(sentence,), drains=drains)
        together.change(host, summary)
    else:
        announce(host, [sentence])


def show_unfinished(host: Host, change: Unfinished, *, drains: bool) -> None:
    """Show the state of an unfinished earlier change; while this one is made, that it is ended first."""
    ends = f"{change.id}, an earlier change, is ended first" if host.state.is_executing else str(change)
    show_beside(host, ends, drains=drains)


def show_progress(host: Host, change: Unfinished | None) -> None:
    """Record the state of the change in progress on a host; None once it has ended."""
    if (together := overview()) is not None:
        together.goes_on(host, change)


def show_end(host: Host, reason: str) -> None:
    """Keep how a host's change has ended, for the end of the run."""
    if (together := overview()) is not None:
        together.note(host, reason=reason)
