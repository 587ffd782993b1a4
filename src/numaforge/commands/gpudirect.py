"""The command that says whether GPUs and NICs reach each other's memory."""

from __future__ import annotations

import click

from numaforge.commands.machine import machine_of, root_option, snapshot_argument
from numaforge.commands.options import output_option
from numaforge.errors import ExitCode
from numaforge.report.terminal import show_json


@click.command()
@snapshot_argument
@root_option
@click.option("-v", "--verbose", is_flag=True, help="Show every pair, and what the other rules came to.")
@output_option("table", "json")
def gpudirect(source: str | None, root: str | None, verbose: bool, output: str) -> int:
    """Say for each GPU and NIC whether GPUDirect RDMA works between them, why not, and what helps.

    Shows each GPU with the NICs nearest to it, with -v with all. Access control of PCIe bridges is known if
    the snapshot was taken as root; what is not known is no alarm. Exits with 1 where something keeps a NIC
    from the memory of its GPU; warnings and notes alone do not.

    \b
    Example:
      numaforge gpudirect gpu-1.json
      numaforge gpudirect -v
    """
    from numaforge.gpudirect.check import check_gpudirect
    from numaforge.gpudirect.pairs import gpu_nic_pairs
    from numaforge.report import gpudirect, rule_findings

    machine = machine_of(source, root)
    pairs, judgements = gpu_nic_pairs(machine), check_gpudirect(machine)
    if output == "json":
        show_json(gpudirect.to_document(machine.hostname, pairs, judgements))
    else:
        click.echo(gpudirect.as_text(machine.hostname, pairs, judgements, verbose=verbose))
    return ExitCode.NO if rule_findings.has_errors(judgements) else ExitCode.YES
