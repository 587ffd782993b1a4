"""Show whether a kubelet would start: the `check` command, its table, JSON and SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numaforge import __version__
from numaforge.errors import ExitCode, KubeletConfigError

# The command answers within 0.3 s, so what is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.kubelet.findings import Finding, Report
    from numaforge.topology.model import KubeletInstall, NodeTopology

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
_SARIF_LEVELS = {"error": "error", "warning": "warning", "note": "note"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@click.command()
@click.argument("config", metavar="[CONFIG.yaml]", required=False, type=click.Path())
@click.option("--drop-in", "drop_in", metavar="DIR", type=click.Path(), help="The folder of --config-dir.")
@click.option("--flag", "flags", metavar="FLAG", multiple=True, help="A kubelet flag, such as --flag=--v=2.")
@click.option(
    "--topology", "machine", metavar="FILE", type=click.Path(), help="A snapshot or a topology (JSON)."
)
@click.option("--root", metavar="DIR", type=click.Path(), help="A captured root directory instead.")
@click.option("--kubelet-version", metavar="VERSION", help="Such as 1.33 or v1.33.4; else the snapshot's.")
@click.option(
    "--state-dir", metavar="DIR", type=click.Path(), help="The folder that holds cpu_manager_state."
)
@click.option("--live", is_flag=True, help="Check this node: its files, flags, version and state.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "json", "sarif")),
    default="table",
    show_default=True,
    help="What to print.",
)
def check(
    config: str | None,
    drop_in: str | None,
    flags: tuple[str, ...],
    machine: str | None,
    root: str | None,
    kubelet_version: str | None,
    state_dir: str | None,
    live: bool,
    output: str,
) -> int:
    """Say whether a kubelet would start with a configuration, in its own words.

    CONFIG.yaml is a KubeletConfiguration, an OpenShift KubeletConfig or a kubeadm file that embeds one.
    Without it, the configuration in the snapshot is checked. Exits with 0 where the kubelet starts, 1 where
    it does not.
    """
    if not (live or machine or root):
        raise click.UsageError("--topology says which machine; --live checks this one")
    topology = _topology(machine, root)
    return _report(topology, config, drop_in, flags, kubelet_version, state_dir, output, live=live)


def _report(
    topology: NodeTopology,
    config: str | None,
    drop_in: str | None,
    flags: tuple[str, ...],
    kubelet_version: str | None,
    state_dir: str | None,
    output: str,
    *,
    live: bool,
) -> int:
    from numaforge.kubelet.config.loading import CONFIG_PATH, DROP_IN_DIR, below
    from numaforge.kubelet.startup.check import check as check_startup
    from numaforge.report.inputs import read_drop_ins, read_state

    installed = topology.kubelet
    # A configuration given by name is judged by what is given with it, unless this node is what is checked.
    inherited = installed if live or config is None else None
    version = kubelet_version or (installed.version if installed else None)
    if version is None:
        raise KubeletConfigError("no kubelet version is known", remedy="give it: --kubelet-version 1.36")
    drop_ins = {}
    if inherited is not None:
        drop_ins = below(inherited.config_dir or DROP_IN_DIR, inherited.drop_ins)
    states = state_dir or (inherited.root_dir if inherited and live else None)
    report = check_startup(
        _config_text(config, inherited),
        topology=topology,
        version=version,
        drop_ins=read_drop_ins(drop_in) if drop_in else drop_ins,
        flags=flags or (inherited.flags if inherited else ()),
        state_files=read_state(states, required=state_dir is not None) if states else {},
        config_path=config or (inherited.config_file if inherited else None) or CONFIG_PATH,
        drop_in_dir=drop_in or (inherited.config_dir if inherited else None) or DROP_IN_DIR,
        root_dir=states or (inherited.root_dir if inherited else "/var/lib/kubelet"),
    )
    if not report.readable and output != "sarif":
        raise KubeletConfigError(report.error or "", where=config, remedy=report.findings[0].remedy)
    click.echo(_RENDERERS[output](report))
    if not report.readable:
        return ExitCode.BAD_INPUT
    return ExitCode.YES if report.starts else ExitCode.NO


def as_text(report: Report) -> str:
    """Return the verdict and the findings for a terminal, errors first."""
    lines = []
    for finding in sorted(report.findings, key=lambda each: list(_COLOURS).index(each.severity)):
        label = click.style(f"{finding.severity} {finding.id}", fg=_COLOURS[finding.severity], bold=True)
        place = _place(finding)
        lines.append(f"{label}  {place}" if place else label)
        lines.append(f"  {finding.message}")
        if finding.text and finding.message not in finding.text:
            lines.append(click.style(f"  kubelet: {finding.text}", dim=True))
        lines.append(f"  -> {finding.remedy}")
        lines.append("")
    if report.starts:
        verdict = click.style(f"kubelet {report.version} starts", fg="green", bold=True)
    else:
        verdict = click.style(f"kubelet {report.version} does not start", fg="red", bold=True)
        verdict += f"; it dies with\n  {report.error}"
    return "\n".join([*lines, verdict])


def to_document(report: Report) -> dict[str, Any]:
    """Return the report as JSON data, schema 1."""
    from numaforge.cpulist import format_cpulist

    return {
        "schema": 1,
        "kubelet": report.version,
        "starts": report.starts,
        "error": report.error,
        "findings": [
            {
                "id": finding.id,
                "severity": str(finding.severity),
                "path": finding.path,
                "file": finding.file,
                "line": finding.line,
                "message": finding.message,
                "text": finding.text,
                "remedy": finding.remedy,
            }
            for finding in report.findings
        ],
        "reserved_cpus": None if report.reserved_cpus is None else format_cpulist(report.reserved_cpus),
        "reservation": dict(report.reservation),
        "effective": dict(report.effective),
    }


def to_sarif(report: Report) -> dict[str, Any]:
    """Return the report as a SARIF 2.1.0 log, which code hosts show beside the changed lines."""
    from numaforge.kubelet.findings import RULES

    ids = sorted({finding.id for finding in report.findings})
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "numaforge check",
                        "version": __version__,
                        "rules": [
                            {
                                "id": rule_id,
                                "shortDescription": {"text": RULES[rule_id].title},
                                "defaultConfiguration": {"level": _SARIF_LEVELS[RULES[rule_id].severity]},
                            }
                            for rule_id in ids
                        ],
                    }
                },
                "results": [_sarif_result(finding, ids) for finding in report.findings],
            }
        ],
    }


def _sarif_result(finding: Finding, ids: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.id,
        "ruleIndex": ids.index(finding.id),
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. Remedy: {finding.remedy}"},
    }
    properties = {"path": finding.path, "kubelet": finding.text}
    result["properties"] = {name: value for name, value in properties.items() if value is not None}
    if finding.file:
        location: dict[str, Any] = {"artifactLocation": {"uri": finding.file}}
        if finding.line:
            location["region"] = {"startLine": finding.line}
        result["locations"] = [{"physicalLocation": location}]
    return result


def _place(finding: Finding) -> str:
    where = finding.file or ""
    if finding.line:
        where += f":{finding.line}"
    return "  ".join(filter(None, (where, finding.path if finding.path != finding.file else None)))


def _topology(machine: str | None, root: str | None) -> NodeTopology:
    if machine and root:
        raise click.UsageError("give either --topology or --root, not both")
    if machine:
        from numaforge.report.inputs import read_machine

        return read_machine(machine)
    from numaforge.snapshot import from_local, from_root
    from numaforge.topology import read_topology

    return read_topology(from_root(Path(root)) if root else from_local())


def _config_text(config: str | None, installed: KubeletInstall | None) -> str:
    if config is not None:
        return Path(config).read_text(encoding="utf-8")
    if installed is None or installed.config_text is None:
        raise KubeletConfigError(
            "the snapshot holds no kubelet configuration",
            remedy="name the file: numaforge check CONFIG.yaml ...",
        )
    return installed.config_text


def _json_text(report: Report) -> str:
    return json.dumps(to_document(report), indent=2)


def _sarif_text(report: Report) -> str:
    return json.dumps(to_sarif(report), indent=2)


_RENDERERS = {"table": as_text, "json": _json_text, "sarif": _sarif_text}
