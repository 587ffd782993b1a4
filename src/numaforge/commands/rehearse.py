"""`numaforge rehearse`: whether a node's own kubelet would start with its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import Planning, plan_of, profile_option
from numaforge.commands.one_host import asked_of
from numaforge.commands.options import data_option, limit_option, output_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import screen, show_answer

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.kubelet.rehearsal import Rehearsed


@click.command()
@click.argument("host", metavar="HOST|INVENTORY")
@profile_option
@limit_option
@data_option
@output_option("table", "json")
def rehearse(
    host: str, profile: str | None, limits: tuple[str, ...], data: tuple[str, ...], output: str
) -> ExitCode:
    """Try a plan with a node's own kubelet.

    Drains and changes nothing. The kubelet starts beside the running one, in a transient unit with
    namespaces of its own, with the plan of --profile, else the one saved on HOST; of a pyinfra INVENTORY
    every host with its own plan. HOST is named as for `numaforge capture`. Shows whether it starts, its
    last words where it does not, and where `numaforge kubelet check` says something else.

    Exit codes: 0 it starts, 1 it refuses the plan, 3 it cannot be rehearsed there, 6 hosts are unreachable.

    \b
    Examples:
      numaforge rehearse gpu-1 --profile training
      numaforge rehearse inventory.py --limit gpu-017 -o json
    """
    from numaforge.commands.capture import inventories_of
    from numaforge.report.rehearsal import exit_code, rehearsal_document, rehearsal_lines

    rehearsals: Mapping[str, Rehearsed]
    failed: Mapping[str, str] = {}
    silent = False
    if inventories_of([host], limits):
        if data or profile:
            raise click.UsageError("--data and --profile are for one HOST; an INVENTORY has its own")
        rehearsals, failed, silent = _of_all(host, limits)
    else:
        rehearsals = {host: _of_one(host, data, profile)}
    show_answer(
        output,
        lambda: rehearsal_document(rehearsals, failed),
        lambda: rehearsal_lines(rehearsals, failed, screen()),
    )
    return exit_code(rehearsals, failed, silent=silent)


def _of_one(host: str, data: Sequence[str], profile: str | None) -> Rehearsed:
    def plan(machine: NodeTopology) -> NodePlan:
        if (planned := plan_of(machine, Planning(profile))) is None:
            raise click.UsageError(f"{host} has no plan: give --profile")
        return planned

    def ask(name: str, how: Mapping[str, str | int]) -> Rehearsed:
        # Imports pyinfra, for which gevent has patched this process by now.
        from numaforge.run.rehearsing import rehearse_host

        return rehearse_host(name, how, plan)

    return asked_of(host, data, ask, f"rehearsing on {host}")


def _of_all(inventory: str, limits: Sequence[str]) -> tuple[dict[str, Rehearsed], dict[str, str], bool]:
    """Return the rehearsals by host, why others have none, and whether those just did not answer."""
    from numaforge.commands.over_inventory import ask_all
    from numaforge.roles.kubelet.rehearsal import from_document

    function = "numaforge.run.rehearsing.rehearse_each"
    answers = ask_all(inventory, limits, function, "rehearsed", "rehearsing on every host")
    documents, failed = answers.documents()
    rehearsals = {name: from_document(document) for name, document in documents.items()}
    return rehearsals, failed, failed.keys() <= answers.unreachable
