"""The command that says whether GPUs and NICs reach each other's memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from numaforge.commands.rules import Note, judging_options, say_judgements

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology


@click.command()
@judging_options("Show every pair, and what the other rules came to.")
def gpudirect(sources: tuple[str, ...], root: str | None, verbose: bool, output: str) -> int:
    """Say for each GPU and NIC whether GPUDirect RDMA works between them, why not, and what helps.

    Shows each GPU with the NICs nearest to it, with -v with all. Access control of PCIe bridges is known if
    the snapshot was taken as root; what is not known is no alarm. Exits with 1 where something keeps a NIC
    from the memory of its GPU; warnings and notes alone do not. Several machines, or a folder with their
    snapshots, are one table.

    \b
    Examples:
      numaforge gpudirect dgx-h100
      numaforge gpudirect -v
      numaforge gpudirect fleet/
    """
    from numaforge.findings.gpudirect.pairs import gpu_nic_pairs
    from numaforge.findings.gpudirect.rules import RULES
    from numaforge.report.gpudirect import doubt, pair_lines, rails_in_short

    def pairs_of(machine: NodeTopology) -> Note:
        pairs = gpu_nic_pairs(machine)
        return Note(
            pair_lines(pairs, verbose=verbose),
            doubt(pairs),
            {"pairs": [asdict(pair) for pair in pairs]},
            rails_in_short(pairs),
        )

    return say_judgements(
        sources, root, RULES, verbose=verbose, output=output, note_of=pairs_of, column="Rails"
    )
