"""`numaforge rdma env` and `numaforge rdma topology-xml`: what libraries read besides files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import machine_and_plan, planning_options, snapshot_or_plan_argument
from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import echo, print_data, remark, save, show_json

if TYPE_CHECKING:
    from numaforge.lib.reasons import Notice
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.roles.rdma.planned import LibrariesPlan


@click.command()
@snapshot_or_plan_argument
@planning_options
@click.option("--gpu", type=click.IntRange(min=0), metavar="N", help="For a process with GPU N alone.")
@click.option(
    "--network",
    type=click.Choice(("host", "overlay")),
    help="Network of the pod.  [default: the profile's, else host]",
)
@output_option("env", "yaml", "json")
def env(
    source: str | None,
    profile: str | None,
    kubelet_version: str | None,
    gpu: int | None,
    network: str | None,
    output: str,
) -> int:
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

    libraries, notices = _libraries(source, profile, kubelet_version)
    for notice in notices:
        remark(f"{notice.id}: {notice.message}")
    variables = environment(libraries, network, gpu)
    if output == "json":
        show_json(variables)
    elif output == "yaml":
        print_data(_container_env(variables))
    else:
        for name, value in variables.items():
            echo(f"{name}={value}")
    return ExitCode.YES if variables else ExitCode.NO


@click.command("topology-xml")
@snapshot_or_plan_argument
@planning_options
@click.option(
    "--to", metavar="FILE", type=click.Path(), help="Write to this file instead of standard output."
)
def topology_xml(source: str | None, profile: str | None, kubelet_version: str | None, to: str | None) -> int:
    """Print NCCL's topology file (NCCL_TOPO_FILE).

    That is the file for a virtual machine, where the profile or plan has `rdma.libraries.pcie_switches`; else
    this machine's PCI tree.

    Exit codes: 1 there is no switch, so the file tells NCCL nothing new.

    \b
    Example:
      numaforge rdma topology-xml dgx-h100 --to topology.xml
    """
    from numaforge.roles.rdma.nccl_topology import of_hidden_switches, of_machine

    machine, planned = machine_and_plan(source, None, profile, kubelet_version)
    switches = planned.rdma.libraries.hidden_switches if planned else ()
    text = of_hidden_switches(switches) if switches else of_machine(machine)
    save(f"{text}\n", to)
    return ExitCode.YES if 'class="0x060400"' in text else ExitCode.NO


def _libraries(
    source: str | None, profile: str | None, kubelet_version: str | None
) -> tuple[LibrariesPlan, tuple[Notice, ...]]:
    """Return the settings of the plan given, made or found; without any, those that fit the machine."""
    machine, planned = machine_and_plan(source, None, profile, kubelet_version)
    if planned is not None and (planned.rdma.libraries.nccl or planned.rdma.libraries.variables):
        return planned.rdma.libraries, ()
    return _as_shown(machine)


def _as_shown(machine: NodeTopology) -> tuple[LibrariesPlan, tuple[Notice, ...]]:
    from numaforge.machine.topology.vendors import only_amd
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.rdma.libraries import plan_libraries
    from numaforge.roles.rdma.planned import LibrariesPlan
    from numaforge.roles.rdma.section import Libraries, Rdma

    shown = NodeProfile(rdma=Rdma(libraries=Libraries(ucx=True, nvshmem=not only_amd(machine.gpus))))
    planned = plan_libraries(machine, shown, LibrariesPlan())
    return planned.value, planned.notices


def _container_env(variables: dict[str, str]) -> str:
    """Return the `env` list of a container; a JSON string is valid YAML."""
    return "env:\n" + "".join(
        f"- name: {name}\n  value: {json.dumps(value)}\n" for name, value in variables.items()
    )
