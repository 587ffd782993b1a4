"""`numaforge gpus`: the GPUs of a machine."""

from __future__ import annotations

import click

from numaforge.commands.config_maps import Handed, handed_machines, handing_options, say_manifests
from numaforge.commands.rules import judging_options, say_judgements
from numaforge.lib.errors import ExitCode

_HANDED = Handed(
    lambda plan: plan.amd_partitions.managed_by == "device-config-manager" and bool(plan.amd_partitions.gpus),
    "no host leaves the modes of its AMD GPUs to the device config manager",
    "set amd_partitions.managed_by: device-config-manager in the profiles of such hosts",
)


@click.group()
def gpus() -> None:
    """Check GPUs, and hand their modes to a manager."""


@gpus.command()
@judging_options("Also show the verdicts of the other rules, with reasons.")
def check(sources: tuple[str, ...], root: str | None, verbose: bool, output: str) -> int:
    """Check GPUs, their driver and their fabric.

    Each rule names the machines that it applies to; unknown facts raise no alarm. Several machines, or a
    folder of snapshots, make one table.

    Exit codes: 1 an error keeps GPUs from their work; warnings and notes: 0.

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
    """Write the ConfigMap for AMD's device config manager, which partitions GPUs as planned.

    One profile per distinct set of modes. The Node label dcm.amd.com/gpu-config-profile chooses it; the
    roll-out sets it on a drained node, where the profile says amd_partitions.managed_by:
    device-config-manager.

    Of an INVENTORY (NAME.py, or a folder with an inventory.py), asks and plans every host by its own profile;
    writes nothing while a host is silent.

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
