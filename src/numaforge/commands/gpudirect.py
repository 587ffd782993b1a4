"""The command that says whether GPUs and NICs reach each other's memory."""

from __future__ import annotations

from dataclasses import asdict

import click

from numaforge.commands.machine import machine_of
from numaforge.commands.rules import judging_options, say_judgements


@click.command()
@judging_options("Show every pair, and what the other rules came to.")
def gpudirect(source: str | None, root: str | None, verbose: bool, output: str) -> int:
    """Say for each GPU and NIC whether GPUDirect RDMA works between them, why not, and what helps.

    Shows each GPU with the NICs nearest to it, with -v with all. Access control of PCIe bridges is known if
    the snapshot was taken as root; what is not known is no alarm. Exits with 1 where something keeps a NIC
    from the memory of its GPU; warnings and notes alone do not.

    \b
    Example:
      numaforge gpudirect dgx-h100
      numaforge gpudirect -v
    """
    from numaforge.findings.gpudirect.pairs import gpu_nic_pairs
    from numaforge.findings.gpudirect.rules import RULES
    from numaforge.report.gpudirect import doubt, pair_lines

    machine = machine_of(source, root)
    pairs = gpu_nic_pairs(machine)
    return say_judgements(
        machine,
        RULES,
        verbose=verbose,
        output=output,
        before=pair_lines(pairs, verbose=verbose),
        doubt=doubt(pairs),
        more={"pairs": [asdict(pair) for pair in pairs]},
    )
