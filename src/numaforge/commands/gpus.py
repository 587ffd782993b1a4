"""The commands that look at the GPUs of a machine."""

from __future__ import annotations

import click

from numaforge.commands.config_maps import Handed, handed_machines, handing_options, say_manifests
from numaforge.commands.rules import judging_options, say_judgements
from numaforge.lib.errors import ExitCode

_HANDED = Handed(
    lambda plan: plan.amd_partitions.managed_by == "device-config-manager" and bool(plan.amd_partitions.gpus),
    "no host leaves the modes of its AMD GPUs to the device config manager",
    "say amd_partitions.managed_by: device-config-manager in the profiles of those that do",
)


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
@handing_options("numaforge-partitions", "kube-amd-gpu")
def config_manager(
    sources: tuple[str, ...],
    limits: tuple[str, ...],
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

    Of an INVENTORY (a file NAME.py, or a folder with an inventory.py) every host is asked, and planned by its
    own profile; those whose profile says so are in the ConfigMap. None is written while a host is silent.

    \b
    Examples:
      numaforge gpus config-manager inventories/prod | kubectl apply -f -
      numaforge gpus config-manager mi300x --profile cpx.yaml | kubectl apply -f -
    """
    from numaforge.roles.device_plugin.manifests import manager_config_map

    machines = handed_machines(sources, limits, profile, kubelet_version, _HANDED)
    manifest, labels = manager_config_map([plan for plan, _ in machines], name, namespace)
    say_manifests([manifest], labels, output, config_map=manifest)
    return ExitCode.YES
