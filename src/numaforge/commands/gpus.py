"""The commands that look at the GPUs of a machine."""

from __future__ import annotations

import click

from numaforge.commands.machine import machine_of, root_option, snapshot_argument
from numaforge.commands.options import output_option
from numaforge.commands.rules import say_judgements


@click.group()
def gpus() -> None:
    """Look at the GPUs of a machine."""


@gpus.command()
@snapshot_argument
@root_option
@click.option("-v", "--verbose", is_flag=True, help="Say what the other rules came to as well, and why.")
@output_option("table", "json")
def check(source: str | None, root: str | None, verbose: bool, output: str) -> int:
    """Say what is wrong with the GPUs of a machine, their driver and their fabric.

    Each rule says on which machines it applies; what a snapshot does not hold is unknown, and no alarm. Exits
    with 1 where something keeps the GPUs from their work; warnings and notes alone do not.

    \b
    Example:
      numaforge gpus check gpu-1.json
      numaforge gpus check -v
    """
    from numaforge.gpus.check import check_gpus

    machine = machine_of(source, root)
    return say_judgements(machine.hostname, check_gpus(machine), verbose=verbose, output=output)
