"""The commands about RDMA."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from numaforge.commands.as_planned import AsPlanned, as_planned_options
from numaforge.commands.config_maps import config_map_options, say_manifests
from numaforge.commands.machine import (
    Planning,
    machine_and_plan,
    machine_argument,
    machine_option,
    planned_machine,
    planning_options,
    root_option,
    snapshot_or_plan_argument,
)
from numaforge.commands.options import output_option, path_option
from numaforge.commands.wrapped import key_option, read_wrapped
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import echo, print_data, remark, save, show_answer, show_json

if TYPE_CHECKING:
    from numaforge.lib.reasons import Notice
    from numaforge.roles.rdma.planned import LibrariesPlan


@click.group()
def rdma() -> None:
    """Check and write settings of RDMA plugin and libraries."""


@rdma.command()
@snapshot_or_plan_argument
@planning_options
@click.option("--gpu", type=click.IntRange(min=0), metavar="N", help="For a process with GPU N alone.")
@click.option(
    "--network",
    type=click.Choice(("host", "overlay")),
    help="Network of the pod.  [default: the profile's, else host]",
)
@output_option("env", "yaml", "json")
def env(source: str | None, planning: Planning, gpu: int | None, network: str | None, output: str) -> int:
    """Print the variables that NCCL or RCCL, UCX, NVSHMEM and vLLM need in a pod.

    Pods do not see the host's files. `-o yaml` prints a container's `env` list, `-o env` lines for a shell or
    --env-file. Without settings in a profile or plan, NCCL, UCX and NVSHMEM get all rails. RCCL, for AMD's
    GPUs, reads NCCL's variables.

    Exit codes: 1 there is nothing to set.

    \b
    Examples:
      numaforge rdma env dgx-h100 -o yaml
      numaforge rdma env dgx-h100 --gpu 3 --network overlay
    """
    from numaforge.roles.rdma.environment import environment

    libraries, notices = _libraries(source, planning)
    for notice in notices:
        remark(f"{notice.id}: {notice.message}")
    variables = environment(libraries, network, gpu)
    if output == "json":
        show_json(variables)
    elif output == "yaml":
        entries = (f"- name: {key}\n  value: {json.dumps(value)}\n" for key, value in variables.items())
        print_data(f"env:\n{''.join(entries)}")  # a JSON string is valid YAML
    else:
        for name, value in variables.items():
            echo(f"{name}={value}")
    return ExitCode.YES if variables else ExitCode.NO


@rdma.command("topology-xml")
@snapshot_or_plan_argument
@planning_options
@path_option("--to", help="Write to this file instead of standard output.")
def topology_xml(source: str | None, planning: Planning, to: str | None) -> int:
    """Print NCCL's topology file (NCCL_TOPO_FILE).

    That is the file for a virtual machine, where the profile or plan has `rdma.libraries.pcie_switches`; else
    this machine's PCI tree.

    Exit codes: 1 there is no switch, so the file tells NCCL nothing new.

    \b
    Example:
      numaforge rdma topology-xml dgx-h100 --to topology.xml
    """
    from numaforge.roles.rdma.nccl_topology import of_hidden_switches, of_machine

    machine, planned = machine_and_plan(source, planning)
    switches = planned.rdma.libraries.hidden_switches if planned else ()
    text = of_hidden_switches(switches) if switches else of_machine(machine)
    save(f"{text}\n", to)
    return ExitCode.YES if 'class="0x060400"' in text else ExitCode.NO


def _libraries(source: str | None, planning: Planning) -> tuple[LibrariesPlan, tuple[Notice, ...]]:
    """Return the settings of the plan given, made or found; without any, those that fit the machine."""
    from numaforge.machine.topology.vendors import only_amd
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.rdma.libraries import plan_libraries
    from numaforge.roles.rdma.planned import LibrariesPlan
    from numaforge.roles.rdma.section import Libraries, Rdma

    machine, planned = machine_and_plan(source, planning)
    if planned is not None and (planned.rdma.libraries.nccl or planned.rdma.libraries.variables):
        return planned.rdma.libraries, ()
    shown = NodeProfile(rdma=Rdma(libraries=Libraries(ucx=True, nvshmem=not only_amd(machine.gpus))))
    fitting = plan_libraries(machine, shown, LibrariesPlan())
    return fitting.value, fitting.notices


@rdma.command()
@snapshot_or_plan_argument
@root_option
@planning_options
def config(source: str | None, planning: Planning) -> int:
    """Print the plugin's config.json for one node, as planned.

    \b
    Example:
      numaforge rdma config dgx-h100 --profile training
    """
    from numaforge.roles.rdma.manifests import config_text

    save(config_text(planned_machine(source, planning)[1]), None)
    return ExitCode.YES


def _is_configuration(document: Mapping[str, Any]) -> bool:
    return "configlist" in {str(key).lower() for key in document}


@rdma.command()
@click.argument("file", metavar="CONFIG", type=click.Path())
@machine_option()
@as_planned_options
@key_option
@output_option("text", "json")
def check(file: str, machine: str | None, node: AsPlanned, key: str | None, output: str) -> int:
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
    from numaforge.roles.rdma.shared_plugin import parse_plugin_config, refusal

    read = parse_plugin_config(*read_wrapped(file, key, _is_configuration))
    findings, counts = check_config(read), None
    if refusal(read) is None and (looked_at := node.machine(machine)) is not None:
        if node.planned:
            looked_at = machine_as_planned(looked_at, node.plan_for(looked_at))
        findings = (*findings, *check_machine(read, looked_at))
        counts = advertised(read, looked_at)
    plugin, worse = "the shared RDMA device plugin", "not a configuration to deploy"
    show_answer(
        output,
        lambda: plugin_document("right", findings, counts),
        lambda: plugin_lines(plugin, findings, counts, worse),
    )
    return ExitCode.NO if has_errors(findings) else ExitCode.YES


@rdma.command()
@machine_argument("MACHINE|PLAN...", nargs=-1, required=True)
@click.option("--image", metavar="IMAGE", required=True, help="Image of the plugin.")
@planning_options
@config_map_options("numaforge-rdma", "kube-system", "ConfigMap and DaemonSet")
@output_option("yaml", "json")
def manifests(
    sources: tuple[str, ...], image: str, planning: Planning, name: str, namespace: str, output: str
) -> int:
    """Write the plugin's ConfigMaps and DaemonSets for these nodes, one per kind of node.

    The Node label numaforge.io/rdma-pools chooses; the roll-out sets it where the profile says
    rdma.device_plugin.deployed.

    \b
    Example:
      numaforge rdma manifests dgx-h100 hgx-b200 --profile training --image IMAGE | kubectl apply -f -
    """
    from numaforge.roles.rdma.manifests import plugin_manifests

    plans = [planned_machine(source, planning)[1] for source in sources]
    documents, labels = plugin_manifests(plans, image, name, namespace)
    say_manifests(documents, labels, output, manifests=documents)
    return ExitCode.YES
