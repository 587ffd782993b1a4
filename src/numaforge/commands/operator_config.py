"""`numaforge mig operator-config`: geometries for the GPU operator."""

from __future__ import annotations

import click

from numaforge.commands.config_maps import Handed, handed_machines, handing_options, say_manifests
from numaforge.lib.errors import ExitCode

_HANDED = Handed(
    lambda plan: plan.mig.managed_by == "gpu-operator" and bool(plan.mig.gpus),
    "no host leaves the cutting of its GPUs to the operator",
    "set mig.managed_by: gpu-operator in the profiles of such hosts",
)


@click.command("operator-config")
@handing_options("numaforge-mig-parted")
def operator_config(
    sources: tuple[str, ...],
    limits: tuple[str, ...],
    profile: str | None,
    kubelet_version: str | None,
    name: str,
    namespace: str,
    output: str,
) -> int:
    """Write the ConfigMap for the GPU operator's MIG manager, which cuts GPUs as planned.

    One config per distinct geometry. The Node label nvidia.com/mig.config chooses it; the roll-out sets it on
    a drained node, where the profile says mig.managed_by: gpu-operator.

    Of an INVENTORY (NAME.py, or a folder with an inventory.py), asks and plans every host by its own profile;
    writes nothing while a host is silent.

    \b
    Example:
      numaforge mig operator-config inventories/prod | kubectl apply -f -
      numaforge mig operator-config dgx-h100 hgx-b200 --profile inference.yaml | kubectl apply -f -
    """
    from numaforge.roles.device_plugin.manifests import operator_config_map

    machines = handed_machines(sources, limits, profile, kubelet_version, _HANDED)
    manifest, labels = operator_config_map(machines, name, namespace)
    say_manifests([manifest], labels, output, config_map=manifest)
    return ExitCode.YES
