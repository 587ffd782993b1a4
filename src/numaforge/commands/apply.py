"""`numaforge apply`: bring the hosts of an inventory to their plans, or show what that would change.

What happens, in order:

1. `run/site_run.py` reads the inventory, connects, and runs the deploy, as the program pyinfra does. The
   deploy (`deploys/site.py`) calls roles by name.
2. `run/decide.py` detects each host (`machine/`) and plans it (`planning/node.py`).
3. `run/maintenance/` looks at each host and makes one transaction of the parts that differ
   (`change/need.py`); here it is shown, and confirmed by the user.
4. Where pods have to leave, `rollout/phases.py` goes from the cordon over the drain to the uncordon.
5. The host itself applies, proves or undoes the transaction (`node/transaction.sh`).
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from numaforge.commands.options import deploy_file, deploy_option, limit_option, output_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import QUIET, echo, screen, show_json, verbosity

if TYPE_CHECKING:
    from numaforge.run.site_run import SiteRun


@click.command()
@click.argument("inventory", type=click.Path())
@click.option("--dry", is_flag=True, help="Show every change, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Apply without asking; required without a terminal.")
@limit_option
@click.option("--diff", is_flag=True, help="Also show every changed file as a diff.")
@click.option("--retry-failed", is_flag=True, help="Also apply a plan that was rolled back on a host.")
@deploy_option
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
    """Bring the hosts of an inventory to their plans.

    The same run as `pyinfra INVENTORY deploys/site.py`: shows the changes, asks, and applies them: a canary
    first, then the others within the limits of numaforge_rollout. Drains a node of a cluster where a change
    needs it.

    The first interrupt (Ctrl-C) finishes the hosts in progress and begins no other; the second leaves them as
    they are and says how each continues.

    Exit codes: 0 every host is as planned (with --dry: can be), 1 a host is refused, blocked or failed, 4 one
    was rolled back, 5 a node is held or left in progress, 6 hosts are unreachable and nothing else is wrong,
    130 interrupted before any change.
    """
    if dry and yes:
        raise click.UsageError("--dry changes nothing, and --yes changes without asking: give one of them")
    asks = not dry and not yes
    if asks and (output == "json" or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise click.UsageError("no terminal to ask on: give --yes to change the hosts, or --dry to look")
    quiet = bool(click.get_current_context().meta.get(QUIET))
    os.environ["PYINFRA_PROGRESS"] = "off"  # ours is shown in its place
    from gevent import monkey  # type: ignore[import-untyped]  # pyinfra does so when it is imported

    monkey.patch_all()
    from numaforge.rollout.names import RETRY_FAILED
    from numaforge.run.site_run import Run, prepared

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
