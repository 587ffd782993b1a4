"""The commands about RDMA."""

from __future__ import annotations

import click

from numaforge.commands.rdma_libraries import env, topology_xml
from numaforge.commands.rdma_pools import check, config, manifests


@click.group()
def rdma() -> None:
    """Check and write settings of RDMA plugin and libraries."""


for _command in (config, check, manifests, env, topology_xml):
    rdma.add_command(_command)
