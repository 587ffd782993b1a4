"""`numaforge rollout resume`: resume a roll-out."""

import click

from numaforge.commands.rollout.options import fleet_command
from numaforge.commands.rollout.run import roll_out
from numaforge.rollout.launch import Pyinfra


@click.command()
@fleet_command()
def resume(program: Pyinfra, output: str, verbose: bool) -> int:
    """Resume a roll-out: first the nodes in the middle of it, then the others."""
    return roll_out(program, output, verbose=verbose, go_on=True)
