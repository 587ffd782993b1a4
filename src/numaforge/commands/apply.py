"""`numaforge apply`: bring the hosts of an inventory to their plans, or show what that would change."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from numaforge.commands.deploys import deploy_file
from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import QUIET, echo, screen, show_json, verbosity

# Imports that `--help` does not need are inside the functions that use them.
if TYPE_CHECKING:
    from numaforge.site_run import SiteRun


@click.command()
@click.argument("inventory", type=click.Path())
@click.option("--dry", is_flag=True, help="Show every change, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Change without asking; needed where there is no terminal.")
@click.option("--limit", "limits", multiple=True, metavar="HOST|GROUP", help="As pyinfra's --limit.")
@click.option("--diff", is_flag=True, help="Show every changed file as a diff, too.")
@click.option(
    "--retry-failed", is_flag=True, help="Also carry out a plan that was rolled back on a host before."
)
@click.option("--deploy", metavar="FILE", type=click.Path(), help="What to carry out; else deploys/site.py.")
@output_option("table", "json")
def apply(
    inventory: str,
    dry: bool,
    yes: bool,
    limits: tuple[str, ...],
    diff: bool,
    retry_failed: bool,
    deploy: str | None,
    output: str,
) -> int:
    """Bring each host of an inventory to its plan: the same run as `pyinfra INVENTORY deploys/site.py`.

    Shows what would change, asks, and changes it: a canary first, then the others within the limits of
    the inventory's numaforge_rollout. A node of a cluster is drained where it has to be.

    An interrupt (Ctrl-C) lets the hosts in progress end and begins no other; a second one leaves them as they
    are, and says of each how it is and goes on.

    Exits with 0 when every host is as planned (with --dry: can be), 1 when one is refused, blocked or has
    failed, 4 when one was rolled back, 5 when a node is held or was left in progress, 6 when all that is
    wrong is a host that does not answer, 130 when it was interrupted before it changed anything.
    """
    if dry and yes:
        raise click.UsageError("--dry changes nothing, and --yes changes without asking: give one of them")
    asks = not dry and not yes
    if asks and (output == "json" or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise click.UsageError(
            "there is no terminal to ask on: give --yes to change the hosts, or --dry to look"
        )
    quiet = bool(click.get_current_context().meta.get(QUIET))
    if quiet:
        os.environ["PYINFRA_PROGRESS"] = "off"
    from gevent import monkey  # type: ignore[import-untyped]  # pyinfra does so when it is imported

    monkey.patch_all()
    from numaforge.rollout.names import RETRY_FAILED
    from numaforge.site_run import Run, prepared

    began = time.monotonic()
    data = {RETRY_FAILED: True} if retry_failed else {}
    site_run = Run(inventory, str(deploy_file(deploy)), limits, None if quiet else verbosity(), data)
    with prepared(site_run, looks=not yes) as site:
        if output == "table" and not yes:
            _show(site, diff=diff, hint=not diff)
        changes = yes or (asks and site.changes and click.confirm("Change these hosts?", err=True))
        if changes:
            site.change()
            if output == "table":
                _show(site, diff=diff and yes)
        hosts = site.hosts
        nothing_applied = asks and site.changes and not changes
    from numaforge.report.fleet import exit_code, fleet_document

    if output == "json":
        show_json(fleet_document(hosts, dry=dry, seconds=time.monotonic() - began))
    return ExitCode.NO if nothing_applied else exit_code(hosts)


def _show(site: SiteRun, *, diff: bool, hint: bool = False) -> None:
    """Print the fleet with identical hosts grouped, then the operations other than maintenances."""
    from numaforge.report.fleet import EVERY_HOST, diff_lines, fleet_lines

    hosts = site.hosts
    hints = ["every change as a diff: --diff"] if hint and any(host.changed for host in hosts) else []
    for line in fleet_lines(hosts, screen(), hints=hints):
        echo(line)
    for line in diff_lines(hosts, [EVERY_HOST] if diff else []):
        echo(line)
    if site.other_operations:
        site.show_others()
