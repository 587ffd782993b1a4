"""`numaforge generate amd-config-manager`: the modes of AMD GPUs, for AMD's device config manager."""

from typing import Any

import click

from numaforge.commands.config_maps import Handed, handed_machines, handing_options, say_manifests
from numaforge.lib.errors import ExitCode

_HANDED = Handed(
    lambda plan: plan.amd_partitions.managed_by == "device-config-manager" and bool(plan.amd_partitions.gpus),
    "no host leaves the modes of its AMD GPUs to the device config manager",
    "set amd_partitions.managed_by: device-config-manager in the profiles of such hosts",
)


@click.command("amd-config-manager")
@handing_options("numaforge-partitions", "kube-amd-gpu")
def amd_config_manager(name: str, namespace: str, output: str, **machines: Any) -> int:
    """Write the ConfigMap for AMD's device config manager, which partitions GPUs as planned.

    One profile per distinct set of modes. The Node label dcm.amd.com/gpu-config-profile chooses it; the
    roll-out sets it on a drained node, where the profile says amd_partitions.managed_by:
    device-config-manager.

    Of an INVENTORY (NAME.py, or a folder with an inventory.py), asks and plans every host by its own profile;
    writes nothing while a host is silent.

    \b
    Examples:
      numaforge generate amd-config-manager inventories/prod | kubectl apply -f -
      numaforge generate amd-config-manager mi300x --profile cpx.yaml | kubectl apply -f -
    """
    from numaforge.roles.device_plugin.manifests import manager_config_map

    plans = [plan for plan, _ in handed_machines(_HANDED, **machines)]
    manifest, labels = manager_config_map(plans, name, namespace)
    say_manifests([manifest], labels, output, config_map=manifest)
    return ExitCode.YES
