"""The commands that look at the GPUs of a machine."""

from __future__ import annotations

import click

from numaforge.commands.config_maps import config_map_options, say_config_map
from numaforge.commands.machine import (
    kubelet_version_option,
    machine_argument,
    planned_machine,
    profile_option,
)
from numaforge.commands.options import output_option
from numaforge.commands.rules import judging_options, say_judgements
from numaforge.errors import ExitCode


@click.group()
def gpus() -> None:
    """Look at the GPUs of a machine."""


@gpus.command()
@judging_options("Say what the other rules came to as well, and why.")
def check(sources: tuple[str, ...], root: str | None, verbose: bool, output: str) -> int:
    """Say what is wrong with the GPUs of a machine, their driver and their fabric.

    Each rule says on which machines it applies; what a snapshot does not hold is unknown, and no alarm. Exits
    with 1 where something keeps the GPUs from their work; warnings and notes alone do not. Several machines,
    or a folder with their snapshots, are one table.

    \b
    Examples:
      numaforge gpus check dgx-h100
      numaforge gpus check -v
      numaforge gpus check fleet/
    """
    from numaforge.findings.gpus.rules import RULES

    return say_judgements(sources, root, RULES, verbose=verbose, output=output)


@gpus.command("config-manager")
@machine_argument("MACHINE...", nargs=-1, required=True)
@profile_option
@kubelet_version_option
@config_map_options("numaforge-partitions", "kube-amd-gpu")
@output_option("yaml", "json")
def config_manager(
    sources: tuple[str, ...],
    profile: str | None,
    kubelet_version: str | None,
    name: str,
    namespace: str,
    output: str,
) -> int:
    """Write the ConfigMap with which AMD's device config manager partitions GPUs as planned.

    It has one profile for each distinct set of modes. The label dcm.amd.com/gpu-config-profile of a Node
    chooses one; the roll-out sets it on a drained node, where the profile says
    amd_partitions.managed_by: device-config-manager.

    \b
    Example:
      numaforge gpus config-manager mi300x --profile cpx.yaml | kubectl apply -f -
    """
    from numaforge.roles.device_plugin.manifests import manager_config_map

    plans = [planned_machine(source, profile, kubelet_version)[1] for source in sources]
    manifest, labels = manager_config_map(plans, name, namespace)
    say_config_map(manifest, labels, output)
    return ExitCode.YES
