"""One machine judged by one subject's rules, in detail: `numaforge audit --only SUBJECT MACHINE`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from numaforge.findings import Severity
from numaforge.findings.engine import MachineRule, check
from numaforge.findings.gpudirect import rules as gpudirect
from numaforge.findings.gpudirect.pairs import gpu_nic_pairs
from numaforge.findings.gpus import rules as gpus
from numaforge.fleet.audit import host_rules
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.model import NodeTopology
from numaforge.report import findings as report
from numaforge.report.gpudirect import doubt, pair_lines
from numaforge.report.terminal import echo_lines, show_json

RULES: Mapping[str, Sequence[MachineRule]] = {
    "gpus": gpus.RULES,
    "gpudirect": gpudirect.RULES,
    "host": host_rules.RULES,
}
"""The rules of each subject of `--only`."""


def show_judgements(
    machine: NodeTopology, subject: str, severities: Collection[Severity], *, verbose: bool, output: str
) -> ExitCode:
    """Print the verdicts of a subject's rules on one machine; NO for a finding of one of the severities."""
    judgements = check(RULES[subject], machine)
    pairs = gpu_nic_pairs(machine) if subject == "gpudirect" else ()
    if output == "json":
        more: dict[str, Any] = {"pairs": [asdict(pair) for pair in pairs]} if subject == "gpudirect" else {}
        show_json(report.to_document(machine.hostname, judgements, more))
    else:
        lines = pair_lines(pairs, verbose=verbose) if subject == "gpudirect" else []
        unknown = doubt(pairs) if subject == "gpudirect" else None
        name = machine.hostname or "this machine"
        echo_lines([*lines, *report.judgement_lines(name, judgements, verbose=verbose, doubt=unknown)])
    findings = report.all_findings(judgements)
    return ExitCode.NO if any(finding.severity in severities for finding in findings) else ExitCode.YES
