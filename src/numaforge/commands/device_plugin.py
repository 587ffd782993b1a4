"""The commands for NVIDIA's device plugin; they need no cluster."""

from collections.abc import Mapping
from typing import Any

import click

from numaforge.commands.as_planned import AsPlanned, as_planned_options
from numaforge.commands.config_maps import config_map_options
from numaforge.commands.machine import (
    Planning,
    machine_argument,
    planned_machine,
    planning_options,
    snapshot_argument,
)
from numaforge.commands.options import output_option
from numaforge.commands.wrapped import key_option, read_wrapped, remark_repeated
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import save, show_answer, show_json


def _is_configuration(document: Mapping[str, Any]) -> bool:
    return ("version" in document or "sharing" in document) and "mig-configs" not in document


@click.group("device-plugin")
def device_plugin() -> None:
    """Check and write configurations of NVIDIA's plugin."""


@device_plugin.command()
@click.argument("file", metavar="FILE", type=click.Path())
@snapshot_argument
@as_planned_options
@key_option
@output_option("text", "json")
def check(file: str, source: str | None, node: AsPlanned, key: str | None, output: str) -> int:
    """Check a device plugin's configuration, more strictly than the plugin does.

    FILE is a configuration, or a ConfigMap or Helm values with one. With MACHINE, also checks it against that
    machine's GPUs, as they are or (--profile, --plan) as planned, and shows what the node would advertise;
    --live, --profile and --plan without MACHINE mean this machine.

    Exit codes: 1 the plugin would not start, 2 the file is invalid.

    \b
    Example:
      numaforge device-plugin check inference.yaml dgx-h100
    """
    from numaforge.report.findings import has_errors, plugin_document, plugin_lines
    from numaforge.roles.device_plugin.advertised import advertised, as_listed
    from numaforge.roles.device_plugin.checks import check_answers, check_config, check_machine
    from numaforge.roles.device_plugin.config import parse_device_plugin
    from numaforge.roles.mig.instance import MigPlan
    from numaforge.roles.mig.plan import as_cut

    text, where = read_wrapped(file, key, _is_configuration)
    config = parse_device_plugin(text, where)
    remark_repeated(text, where)
    findings, counts = check_config(config), None
    if (machine := node.machine(source)) is not None:
        mig = node.plan_for(machine).mig if node.planned else MigPlan()
        machine_after = as_listed(as_cut(machine, mig))
        findings = (*findings, *check_answers(config, machine_after), *check_machine(config, machine_after))
        counts = {} if has_errors(findings) else advertised(config, machine_after)
    refusal = "the device plugin does not start"
    show_answer(
        output,
        lambda: plugin_document("starts", findings, counts),
        lambda: plugin_lines("the device plugin", findings, counts, refusal),
    )
    return ExitCode.NO if has_errors(findings) else ExitCode.YES


@device_plugin.command()
@machine_argument("MACHINE|PLAN...", nargs=-1, required=True)
@planning_options
@config_map_options("numaforge-device-plugin")
@output_option("yaml", "json")
def config(sources: tuple[str, ...], planning: Planning, name: str, namespace: str, output: str) -> int:
    """Write the plugin's ConfigMap for these nodes: a key per kind of node.

    The Node label nvidia.com/device-plugin.config chooses the key; the roll-out sets it.

    \b
    Example:
      numaforge device-plugin config dgx-h100 hgx-b200 --profile inference.yaml | kubectl apply -f -
    """
    from numaforge.lib.kubernetes_objects import as_yaml
    from numaforge.roles.device_plugin.manifests import device_plugin_config_map

    plans = [planned_machine(source, planning)[1] for source in sources]
    manifest = device_plugin_config_map(plans, name, namespace)
    if output == "json":
        show_json(manifest)
    else:
        save(as_yaml(manifest), None)
    return ExitCode.YES
