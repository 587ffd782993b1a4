"""The node and the kubelet that `admit` and `fit` judge pods by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import machine_of
from numaforge.commands.options import Command

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.kubelet.admission.device_manager import Inventory
    from numaforge.kubelet.admission.fit import Scenario
    from numaforge.topology.model import NodeTopology

_OPTIONS = (
    click.option("--config", metavar="FILE", type=click.Path(), help="Else the machine's own."),
    click.option("--drop-in", metavar="DIR", type=click.Path(), help="The folder of --config-dir."),
    click.option("--flag", "flags", metavar="FLAG", multiple=True, help="A kubelet flag."),
    click.option(
        "--kubelet-version",
        metavar="VERSION",
        help="Whose defaults apply; else the newest one that is known.",
    ),
    click.option(
        "--devices",
        metavar="FILE",
        type=click.Path(),
        help='What device plugins advertise, as {"nvidia.com/gpu": [0, 0, 1, 1]}; else the machine\'s GPUs.',
    ),
    click.option(
        "--profile",
        metavar="NAME|FILE",
        help="Take the GPUs as this profile cuts and shares them, and its RDMA pools with them.",
    ),
    click.option(
        "--state-dir",
        metavar="DIR",
        type=click.Path(),
        help="Start from the state files in this kubelet root directory.",
    ),
)


def scenario_options(command: Command) -> Command:
    """Give a command the options that say which kubelet: the keywords of `scenario_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def scenario_of(
    topology: str,
    *,
    config: str | None,
    drop_in: str | None,
    flags: tuple[str, ...],
    kubelet_version: str | None,
    devices: str | None,
    profile: str | None,
    state_dir: str | None,
) -> Scenario:
    """Return the machine in the file `topology` with its kubelet's configuration, devices and state.

    Raises NumaforgeError for files that cannot be read, and for a kubelet that would not start.
    """
    from numaforge.commands.inputs import read_config, read_devices, read_state
    from numaforge.kubelet.admission.fit import Scenario

    if devices and profile:
        raise click.UsageError("give --devices or --profile, not both")
    machine = machine_of(topology, None)
    return Scenario(
        topology=machine,
        config=read_config(config, drop_in, flags, kubelet_version, machine),
        devices=read_devices(devices, machine) if devices else _devices(machine, profile),
        state=read_state(state_dir) if state_dir else None,
    )


def _devices(machine: NodeTopology, profile: str | None) -> Inventory:
    """Return what the machine advertises as it is, or once it is cut and shared as a profile says."""
    from numaforge.kubelet.admission import inventory_of

    if profile is None:
        return inventory_of(machine)
    from numaforge.profile import load_profile
    from numaforge.roles.device_plugin.plan import planned_devices

    return planned_devices(machine, load_profile(profile))
