"""The commands for the shared RDMA device plugin; they need no cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from numaforge.commands.as_planned import as_planned_options, asked_as_planned, plan_for
from numaforge.commands.config_maps import config_map_options, say_manifests
from numaforge.commands.machine import (
    machine_and_plan,
    machine_argument,
    machine_of,
    machine_option,
    planned_machine,
    planning_options,
    root_option,
    snapshot_or_plan_argument,
)
from numaforge.commands.options import output_option
from numaforge.commands.wrapped import key_option, read_wrapped
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import echo_lines, save, show_json


@click.command()
@snapshot_or_plan_argument
@root_option
@planning_options
def config(source: str | None, root: str | None, profile: str | None, kubelet_version: str | None) -> int:
    """Print the plugin's config.json for one node, as planned.

    \b
    Example:
      numaforge rdma config dgx-h100 --profile training
    """
    from numaforge.roles.rdma.manifests import config_text

    _, planned = machine_and_plan(source, root, profile, kubelet_version)
    if planned is None:
        raise click.UsageError("no plan: give --profile")
    save(config_text(planned), None)
    return ExitCode.YES


def _is_configuration(document: Mapping[str, Any]) -> bool:
    return "configlist" in {str(key).lower() for key in document}


@click.command()
@click.argument("file", metavar="CONFIG", type=click.Path())
@machine_option()
@as_planned_options
@key_option
@output_option("text", "json")
def check(
    file: str,
    machine: str | None,
    profile: str | None,
    plan: str | None,
    live: bool,
    key: str | None,
    output: str,
) -> int:
    """Check a config.json of the plugin, more strictly than the plugin does.

    CONFIG may be a ConfigMap or a NicClusterPolicy with the file. With --machine, also checks it against that
    machine's RDMA devices, as they are or (--profile, --plan) as planned, and shows what the node would
    advertise; --live, --profile and --plan without --machine mean this machine.

    Exit codes: 1 the plugin would not start, or no pod could have a resource, 2 the file is unreadable.

    \b
    Example:
      numaforge rdma check config.json --machine dgx-h100
    """
    from numaforge.planning.as_planned import machine_as_planned
    from numaforge.report.findings import has_errors, plugin_document, plugin_lines
    from numaforge.roles.rdma.plugin_checks import advertised, check_config, check_machine
    from numaforge.roles.rdma.plugin_config import parse_plugin_config, refusal

    planned = asked_as_planned(profile, plan, live=live)
    read = parse_plugin_config(*read_wrapped(file, key, _is_configuration))
    findings = check_config(read)
    counts = None
    if (machine is not None or planned or live) and refusal(read) is None:
        looked_at = machine_of(machine, None)
        if planned:
            looked_at = machine_as_planned(looked_at, plan_for(looked_at, profile, plan))
        findings = (*findings, *check_machine(read, looked_at))
        counts = advertised(read, looked_at)
    if output == "json":
        show_json(plugin_document("right", findings, counts))
    else:
        plugin, worse = "the shared RDMA device plugin", "not a configuration to deploy"
        echo_lines(plugin_lines(plugin, findings, counts, worse))
    return ExitCode.NO if has_errors(findings) else ExitCode.YES


@click.command()
@machine_argument("MACHINE|PLAN...", nargs=-1, required=True)
@click.option("--image", metavar="IMAGE", required=True, help="Image of the plugin.")
@planning_options
@config_map_options("numaforge-rdma", "kube-system", "ConfigMap and DaemonSet")
@output_option("yaml", "json")
def manifests(
    sources: tuple[str, ...],
    image: str,
    profile: str | None,
    kubelet_version: str | None,
    name: str,
    namespace: str,
    output: str,
) -> int:
    """Write the plugin's ConfigMaps and DaemonSets for these nodes, one per kind of node.

    The Node label numaforge.io/rdma-pools chooses; the roll-out sets it where the profile says
    rdma.device_plugin.deployed.

    \b
    Example:
      numaforge rdma manifests dgx-h100 hgx-b200 --profile training --image IMAGE | kubectl apply -f -
    """
    from numaforge.roles.rdma.manifests import plugin_manifests

    plans = [planned_machine(source, profile, kubelet_version)[1] for source in sources]
    documents, labels = plugin_manifests(plans, image, name, namespace)
    say_manifests(documents, labels, output, manifests=documents)
    return ExitCode.YES
