"""`numaforge kubelet check`: whether a kubelet would start with a configuration."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from numaforge.commands.as_planned import AsPlanned, GivenKubelet, as_planned_options
from numaforge.commands.machine import machine_of, machine_option, root_option
from numaforge.commands.options import output_option, path_option
from numaforge.lib.errors import ExitCode, KubeletConfigError
from numaforge.lib.kubelet_paths import CONFIG_PATH, DROP_IN_DIR
from numaforge.report.printable import plain
from numaforge.report.terminal import echo_lines, save, show_json

if TYPE_CHECKING:
    from numaforge.kubelet.findings import Report
    from numaforge.machine.topology.model import NodeTopology

_MOST_CORRECTIONS = 10


@click.group()
def kubelet() -> None:
    """Check whether a kubelet would start."""


@kubelet.command()
@click.argument("config", metavar="[CONFIG.yaml]", required=False, type=click.Path())
@path_option("--drop-in", "drop_in", metavar="DIR", help="Path to the kubelet's --config-dir.")
@click.option("--flag", "flags", metavar="FLAG", multiple=True, help="Kubelet flag, e.g. --flag=--v=2.")
@machine_option("machine")
@root_option
@click.option(
    "--kubelet-version",
    metavar="VERSION",
    help="Kubelet version, e.g. 1.33 or v1.33.4 [default: the snapshot's].",
)
@path_option("--state-dir", metavar="DIR", help="Path to the folder of cpu_manager_state.")
@click.option(
    "--fix", is_flag=True, help="Print CONFIG.yaml with everything corrected that has one right value."
)
@as_planned_options
@output_option("table", "json", "sarif")
def check(
    machine: str | None, root: str | None, node: AsPlanned, fix: bool, output: str, **kubelet_given: Any
) -> int:
    """Check whether a kubelet would start.

    CONFIG.yaml is a KubeletConfiguration, an OpenShift KubeletConfig, a kubeadm file or flags [default: the
    snapshot's; with --profile or --plan, the planned one]. Errors are the kubelet's own.

    Exit codes: 0 the kubelet starts, 1 it does not. With --fix: 0 it starts with the printed file.
    """
    from numaforge.report.check import DOCUMENTS, report_lines

    given = GivenKubelet(**kubelet_given)
    config = given.config
    if fix and (config is None or node.planned or output != "table"):
        raise click.UsageError("--fix prints CONFIG.yaml: name it, without --profile, --plan and --output")
    node.require_machine(machine or root)
    if machine and root:
        raise click.UsageError("give either --machine or --root, not both")
    is_local = not (machine or root)
    topology = machine_of(machine, root)
    if not node.planned:
        report = _as_it_is(topology, given, live=node.live, is_local=is_local)
    else:
        with_given = given.on(topology)
        root_dir = with_given.kubelet.root_dir if with_given.kubelet and is_local else None
        report = node.node(with_given, given.kubelet_version, _state(given, root_dir)).kubelet
    if not report.readable and output != "sarif":
        from numaforge.commands.wrapped import whose_file
        from numaforge.kubelet.findings import words

        first = report.findings[0]
        remedy = first.remedy if first.where == "spec" else whose_file(config) or first.remedy
        raise KubeletConfigError(words(report), where=config, remedy=remedy)
    if fix and config is not None:
        return _fix(config, report, topology, given, live=node.live)
    if output in DOCUMENTS:
        show_json(DOCUMENTS[output](report))
    else:
        echo_lines(report_lines(report))
    if not report.readable:
        return ExitCode.BAD_INPUT
    return ExitCode.YES if report.starts else ExitCode.NO


def _fix(config: str, report: Report, topology: NodeTopology, given: GivenKubelet, *, live: bool) -> int:
    """Print the file with what has one right value if the kubelet starts with it, else what is wrong."""
    from numaforge.commands.inputs import read_settings
    from numaforge.kubelet.startup.fix import fixed
    from numaforge.report.check import report_lines

    corrected = read_settings(config)
    for _ in range(_MOST_CORRECTIONS):  # the kubelet names some mistakes only once others are mended
        text = corrected
        corrected = fixed(text, report, topology, config)
        if corrected == text:
            break
        report = _as_it_is(topology, given, live=live, is_local=False, text=corrected)
    if not report.starts:
        echo_lines(report_lines(report))
        return ExitCode.NO
    save(plain(corrected), None)
    return ExitCode.YES


def _as_it_is(
    topology: NodeTopology, given: GivenKubelet, *, live: bool, is_local: bool, text: str | None = None
) -> Report:
    """Return the report on all configurations of a file, or of `text` in its place, else on the machine's."""
    from numaforge.commands.inputs import read_drop_ins, read_settings
    from numaforge.kubelet.config.loading import below
    from numaforge.kubelet.startup.check import check as check_startup
    from numaforge.machine.topology.model import KubeletInstall, why_no_version

    installed, config, drop_in = topology.kubelet, given.config, given.drop_in
    # A file named on the command line inherits no drop-ins, flags or state of the node, except with --live.
    inherited = installed if live or config is None else None
    version = given.kubelet_version or (installed.version if installed else None)
    if version is None:
        why = f"no kubelet version is known: {why_no_version(installed)}"
        raise KubeletConfigError(why, remedy="give it: --kubelet-version 1.36")
    if text is None and config is not None:
        text = read_settings(config)
    own = inherited or KubeletInstall(version, None, None, None, ())
    if text is None and (text := own.config_text) is None:
        remedy = "name the file: `numaforge kubelet check CONFIG.yaml ...`"
        raise KubeletConfigError("the snapshot holds no kubelet configuration", remedy=remedy)
    root = own.root_dir if inherited and is_local else None
    check_number = partial(
        check_startup,
        text,
        topology=topology,
        version=version,
        drop_ins=read_drop_ins(drop_in) if drop_in else below(own.config_dir or DROP_IN_DIR, own.drop_ins),
        flags=given.flags or own.flags,
        state_files=_state(given, root),
        config_path=config or own.config_file or CONFIG_PATH,
        drop_in_dir=drop_in or own.config_dir or DROP_IN_DIR,
        root_dir=given.state_dir or own.root_dir,
    )
    reports = [check_number()]
    while reports[-1].further:
        reports.append(check_number(number=len(reports)))
    findings = tuple(finding for report in reports for finding in report.findings)
    return replace(min(reports, key=lambda report: (report.readable, report.starts)), findings=findings)


def _state(given: GivenKubelet, root_dir: str | None) -> dict[str, str]:
    """Return the state files of --state-dir, which has to have some, else those below the kubelet's root."""
    from numaforge.commands.inputs import read_state

    if given.state_dir:
        return read_state(given.state_dir)
    return read_state(root_dir, required=False) if root_dir else {}
