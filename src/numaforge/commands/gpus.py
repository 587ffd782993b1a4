"""The commands that look at the GPUs of a machine."""

from __future__ import annotations

import click

from numaforge.commands.machine import machine_of
from numaforge.commands.rules import judging_options, say_judgements


@click.group()
def gpus() -> None:
    """Look at the GPUs of a machine."""


@gpus.command()
@judging_options("Say what the other rules came to as well, and why.")
def check(source: str | None, root: str | None, verbose: bool, output: str) -> int:
    """Say what is wrong with the GPUs of a machine, their driver and their fabric.

    Each rule says on which machines it applies; what a snapshot does not hold is unknown, and no alarm. Exits
    with 1 where something keeps the GPUs from their work; warnings and notes alone do not.

    \b
    Example:
      numaforge gpus check dgx-h100
      numaforge gpus check -v
    """
    from numaforge.findings.gpus.rules import RULES

    return say_judgements(machine_of(source, root), RULES, verbose=verbose, output=output)
