"""The commands that write files for the cluster."""

import click

from numaforge.commands.options import LazyGroup

COMMANDS = {"Commands": ("cluster", "monitoring", "runtime-class", "amd-config-manager")}


@click.group(cls=LazyGroup, package=__name__, groups=COMMANDS)
def generate() -> None:
    """Write manifests for schedulers and monitoring.

    Applies nothing. The files of device plugins and of the MIG manager are beside their checks: `mig
    operator-config`, `device-plugin config`, `rdma config` and `rdma manifests`.
    """
