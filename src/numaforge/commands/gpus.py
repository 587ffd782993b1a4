"""The commands that look at the GPUs of a machine."""

from __future__ import annotations

import click

from numaforge.commands.rules import judging_options, say_judgements


@click.group()
def gpus() -> None:
    """Look at the GPUs of a machine."""


@gpus.command()
@judging_options("Say what the other rules came to as well, and why.")
def check(sources: tuple[str, ...], root: str | None, verbose: bool, output: str) -> int:
    """Say what is wrong with the GPUs of a machine, their driver and their fabric.

    Each rule says on which machines it applies; what a snapshot does not hold is unknown, and no alarm. Exits
    with 1 where something keeps the GPUs from their work; warnings and notes alone do not. Several machines,
    or a folder with their snapshots, are one table.

    \b
    Examples:
      numaforge gpus check dgx-h100
      numaforge gpus check -v
      numaforge gpus check fleet/
    """
    from numaforge.findings.gpus.rules import RULES

    return say_judgements(sources, root, RULES, verbose=verbose, output=output)
