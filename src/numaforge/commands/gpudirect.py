"""`numaforge gpudirect`: whether NICs reach the memory of GPUs."""

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
    """Check whether NICs reach the memory of GPUs.

    Shows for each GPU and its nearest NICs (all with -v) whether GPUDirect RDMA works, why not, and what
    helps. Only root's snapshot holds the access control of PCIe bridges; unknown facts raise no alarm.
    Several machines, or a folder of snapshots, make one table.

    Exit codes: 1 an error keeps a NIC from the memory of its GPU; warnings and notes: 0.

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
