"""`numaforge audit`: machines, each by itself, among its siblings, and in its rack."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import each_named, machine_of, machines_argument, root_option
from numaforge.commands.options import WITHIN_SECONDS, limit_option, output_option, path_option
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import echo_lines, print_data, save, screen, show_json

if TYPE_CHECKING:
    from numaforge.commands.many_machines import ManyMachines
    from numaforge.fleet.audit.fleet import Changes, FleetAudit

SUBJECTS = ("gpus", "gpudirect", "host")
"""The subjects of `numaforge.commands.one_machine.RULES`, for --help."""

_SUFFIXES = {".json": "json", ".html": "html", ".sarif": "sarif", ".xml": "junit", ".prom": "prometheus"}


@click.command()
@machines_argument
@root_option
@click.option(
    "--only",
    "subject",
    type=click.Choice(SUBJECTS),
    help="Judge by the rules of one subject; shows one MACHINE in detail.",
)
@limit_option
@path_option("--baseline", help="Accept the findings of an earlier audit (-o json).")
@path_option("--since", help="Show changes since an earlier audit (-o json).")
@click.option(
    "--timeout",
    type=click.IntRange(1, 3600),
    default=WITHIN_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Seconds a host of an INVENTORY may take to answer.",
)
@click.option(
    "--fail-on",
    type=click.Choice(("error", "warning", "note")),
    default="error",
    show_default=True,
    help="Lowest severity of a finding that makes the answer no.",
)
@path_option(
    "--to",
    "files",
    multiple=True,
    help=f"Also save the audit, in the format of the suffix: {', '.join(_SUFFIXES)} (JUnit: .xml).",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every finding with its remedy.")
@output_option("table", "json", "html", "sarif", "junit", "prometheus")
def audit(
    sources: tuple[str, ...],
    root: str | None,
    subject: str | None,
    limits: tuple[str, ...],
    baseline: str | None,
    since: str | None,
    timeout: int,
    fail_on: str,
    files: tuple[str, ...],
    verbose: bool,
    output: str,
) -> int:
    """Check machines for faults, and compare them.

    MACHINE may be a pyinfra INVENTORY (NAME.py, or a folder with an inventory.py): asks all of its hosts at
    once, one round trip each, read-only. Checks GPUs, GPUDirect, host and kubelet of each machine, and the
    plan saved on it; compares machines of one make, and trays of one rack.

    --only checks one subject. Of one MACHINE it then shows every verdict (-v), and for gpudirect the path
    from each GPU to its NICs (to all NICs with -v).

    Exit codes: 0 no error besides those of the baseline, 1 an error, 6 hosts are unreachable and nothing else
    is wrong.

    \b
    Examples:
      numaforge audit --only gpus dgx-h100
      numaforge audit fleet/
      numaforge audit inventory.py --to audit.html --to audit.json
      numaforge audit fleet/ --baseline known.json --since audit.json
    """
    from numaforge.commands.capture import is_inventory
    from numaforge.commands.many_machines import read_machines
    from numaforge.findings import Severity
    from numaforge.fleet.audit.fleet import (
        UNREACHABLE,
        Changes,
        changes,
        fleet_audit,
        with_baseline,
        with_rules,
    )
    from numaforge.report.audit_documents import audit_document, earlier

    severities = list(Severity)[: list(Severity).index(Severity(fail_on)) + 1]
    if root is not None and (sources or subject is None):
        raise click.UsageError("--root goes with --only, in place of MACHINE")
    fleet_options = limits or baseline or since or files or output not in ("table", "json")
    names = each_named(sources)
    if subject and not fleet_options and len(names) <= 1 and not any(map(is_inventory, sources)):
        from numaforge.commands.one_machine import show_judgements

        machine = machine_of(names[0] if names else None, root)
        return show_judgements(machine, subject, severities, verbose=verbose, output=output)
    formats = {file: _format(file) for file in files}
    accepted = earlier(baseline) if baseline else {}
    earlier_audit = earlier(since) if since else None
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        machines = read_machines(sources, limits, Path(folder), timeout)
        if (why := machines.refused) is not None:
            raise NumaforgeError(why)
        audited = fleet_audit(machines.read, machines.failed)
        if subject is not None:
            from numaforge.commands.one_machine import RULES

            audited = with_rules(audited, RULES[subject])
        audited = with_baseline(audited, accepted)
        changed = None if earlier_audit is None else changes(audited, earlier_audit)
        for file, kind in formats.items():
            save(_text(audited, changed, kind, fail_on, machines), file)
        if output == "json":
            show_json(audit_document(audited, changed))
        elif output == "table":
            from numaforge.report.audit import audit_lines

            echo_lines(audit_lines(audited, changed or Changes(), screen(), whole=verbose))
        else:
            print_data(_text(audited, changed, output, fail_on, machines))
    wrong = {finding.finding.id for finding in audited.open if finding.finding.severity in severities}
    if not wrong:
        return ExitCode.YES
    return ExitCode.UNREACHABLE if wrong == {UNREACHABLE.id} else ExitCode.NO


def _format(file: str) -> str:
    kind = _SUFFIXES.get(Path(file).suffix)
    if kind is None:
        raise click.BadParameter(
            f"{file!r} has no known suffix; end it with one of {', '.join(_SUFFIXES)}", param_hint="--to"
        )
    return kind


def _text(audit: FleetAudit, changed: Changes | None, kind: str, fail_on: str, machines: ManyMachines) -> str:
    from numaforge.report import audit_documents

    if kind == "html":
        from numaforge.report.audit_page import audit_page

        return audit_page(audit, changed, machines.portraits(audit))
    if kind == "junit":
        return audit_documents.junit(audit, fail_on)
    if kind == "prometheus":
        return audit_documents.prometheus(audit)
    document = audit_documents.sarif if kind == "sarif" else audit_documents.audit_document
    return json.dumps(document(audit, changed), indent=1, ensure_ascii=False) + "\n"
