"""Hand geometries over to the GPU operator."""

from __future__ import annotations

import click

from numaforge.commands.machine import kubelet_version_option, planned_machine, profile_option
from numaforge.commands.options import output_option
from numaforge.errors import ExitCode, PlanError
from numaforge.report.terminal import save, show_json


@click.command("operator-config")
@click.argument("sources", metavar="SNAPSHOT...", nargs=-1, required=True, type=click.Path())
@profile_option
@kubelet_version_option
@click.option("--name", default="numaforge-mig-parted", show_default=True, help="The ConfigMap's name.")
@click.option("--namespace", default="gpu-operator", show_default=True, help="Where the ConfigMap belongs.")
@output_option("yaml", "json")
def operator_config(
    sources: tuple[str, ...],
    profile: str | None,
    kubelet_version: str | None,
    name: str,
    namespace: str,
    output: str,
) -> int:
    """Write the ConfigMap with which the GPU operator's MIG manager cuts the GPUs as planned.

    It has one config for each distinct geometry. The label nvidia.com/mig.config of a Node chooses one;
    the roll-out sets it on a drained node, where the profile says mig.managed_by: gpu-operator.

    \b
    Example:
      numaforge mig operator-config gpu-1.json gpu-2.json --profile inference.yaml | kubectl apply -f -
    """
    from numaforge.planning.device_plugin.manifests import as_yaml, operator_config_map

    machines = []
    for source in sources:
        machine, planned = planned_machine(source, profile, kubelet_version)
        if not machine.gpus:
            raise PlanError(
                "says nothing of GPUs",
                where=source,
                remedy="name the snapshot of a machine with GPUs, not its plan",
            )
        machines.append((planned, machine))
    manifest, labels = operator_config_map(machines, name, namespace)
    if output == "json":
        show_json({"schema": 1, "config_map": manifest, "labels": labels})
    else:
        lines = (f"# {host}: {key}={value}\n" for host, said in labels.items() for key, value in said.items())
        save("".join([*lines, as_yaml(manifest)]), None)
    return ExitCode.YES
