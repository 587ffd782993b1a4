"""The commands of a roll-out over live nodes."""

import click

from numaforge.commands.options import LazyGroup

COMMANDS = {"Commands": ("plan", "run", "resume", "status", "abort")}
REPAIRS = ("unlock", "release", "mig-labels")
"""Commands for what a roll-out left behind, which `--help` does not show."""


@click.group(cls=LazyGroup, package=__name__, groups=COMMANDS, hidden_names=REPAIRS)
def rollout() -> None:
    """Drain, change and verify the nodes of a cluster.

    Restarts kubelets on live nodes, and undoes what fails.

    INVENTORY is pyinfra's. Exits with 0 when every node is as planned, 3 when some are blocked, 4 when some
    were rolled back, 5 when some are held for a person.
    """
