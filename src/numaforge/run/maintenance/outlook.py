"""What `numaforge rollout` learns about each host before it begins the first: what would change, and how."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from numaforge.rollout import events
from numaforge.run.hosts import access_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyinfra.api import Host

    from numaforge.change.transaction import Transaction
    from numaforge.rollout.options import RolloutOptions

    from .target import Target


@dataclass(frozen=True)
class Outlook:
    """What a maintenance would do to a host; `does` has a line for each change, and is empty without changes.

    `drains`: pods must leave for it. `reboots`: it needs a reboot. `unfinished`: an earlier change has not
    ended, or is not proved. `unreadable` is why the host may not read its kubelet's running configuration,
    `ended_work` why the change has to wait for work that no drain moves.
    """

    does: tuple[str, ...] = ()
    drains: bool = False
    reboots: bool = False
    unfinished: bool = False
    unreadable: str = ""
    ended_work: str = ""


def outlook(
    transaction: Transaction | None, labels: Sequence[str], unproved: str | None, unreadable: str
) -> Outlook:
    """Return what a transaction and a change of labels would do."""
    more = (*labels, *([f"the transaction {unproved} is not proved yet"] if unproved else ()))
    if transaction is None:
        return Outlook(more, unfinished=bool(unproved), unreadable=unreadable)
    does = (
        (*transaction.sentences, *transaction.moves)
        or transaction.writes
        or ("its running configuration changes",)
    )
    return Outlook(
        (*does, *more),
        transaction.drains,
        transaction.reboots,
        bool(unproved),
        unreadable=unreadable,
        ended_work=transaction.ended_work,
    )


def announce_outlook(host: Host, target: Target, options: RolloutOptions, forecast: Outlook) -> None:
    """Report what this run would do to a host to the process that started the run."""
    if not events.heard():
        return
    events.record(
        "outlook",
        host.name,
        node=target.node,
        access=asdict(access_to(host)),
        joined=target.joined,
        restarts=forecast.drains,
        sentences=forecast.does if forecast.drains else (),
        changes=bool(forecast.does),
        reboots=forecast.reboots,
        does=forecast.does,
        unfinished=forecast.unfinished,
        allocatable=target.expected.allocatable,
        labels=target.expected.labels,
        devices=sorted(target.expected.devices),
        unpins=target.unpins,
        options=options.model_dump(),
        said=sorted(options.model_fields_set),
        unreadable=forecast.unreadable,
        ended_work=forecast.ended_work,
        trays=[tray and asdict(tray) for tray in target.trays],
    )
