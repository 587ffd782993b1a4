"""The commands of a roll-out over live nodes."""

from __future__ import annotations

import click

from numaforge.commands.options import LazyGroup

COMMANDS = ("plan", "run", "resume", "status", "abort", "unlock", "release", "mig-labels")


@click.group(cls=LazyGroup, package=__name__, names=COMMANDS)
def rollout() -> None:
    """Restart kubelets on live nodes: drain, change, prove, undo.

    INVENTORY is pyinfra's. Exits with 0 when every node is as planned, 3 when some are blocked, 4 when some
    were rolled back, 5 when some are held for a person.
    """
