"""The node and the kubelet that `admit` and `fit` judge pods by."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from numaforge.commands.as_planned import AsPlanned, as_planned_options, given_kubelet
from numaforge.commands.machine import machine_of
from numaforge.commands.options import GroupedOption, offered
from numaforge.report.terminal import remark

if TYPE_CHECKING:
    from numaforge.cluster.explain.claims import ClaimWorld
    from numaforge.kubelet.admission.fit import Scenario

_of_kubelet = partial(
    click.option, cls=GroupedOption, heading="The kubelet, where it is not the machine's own"
)
scenario_options = offered(
    _of_kubelet(
        "--config",
        metavar="FILE",
        type=click.Path(),
        help="Kubelet configuration [default: the machine's own].",
    ),
    _of_kubelet("--drop-in", metavar="DIR", type=click.Path(), help="Path to the kubelet's --config-dir."),
    _of_kubelet("--flag", "flags", metavar="FLAG", multiple=True, help="Kubelet flag."),
    _of_kubelet(
        "--kubelet-version",
        metavar="VERSION",
        help="Kubelet version whose rules apply [default: newest known].",
    ),
    click.option(
        "--devices",
        metavar="FILE",
        type=click.Path(),
        help='Devices by NUMA node, as {"nvidia.com/gpu": [0, 0, 1, 1]} [default: the machine\'s GPUs].',
    ),
    as_planned_options,
    _of_kubelet(
        "--state-dir",
        metavar="DIR",
        type=click.Path(),
        help="Start from the state files in this kubelet root directory.",
    ),
)
"""The options of the node and its kubelet: the keywords of `scenario_of`."""


def scenario_of(
    topology: str | None,
    objects: ClaimWorld,
    *,
    config: str | None,
    drop_in: str | None,
    flags: tuple[str, ...],
    kubelet_version: str | None,
    devices: str | None,
    node: AsPlanned,
    state_dir: str | None,
) -> Scenario:
    """Return the named machine, else this one, with its kubelet's configuration, devices and state.

    With a profile or a plan everything is as planned, else as it is. `objects` are claim objects, which pods
    find besides the planned ones. Raises NumaforgeError for unreadable files, and for a kubelet that would
    not start.
    """
    from numaforge.cluster.explain.node_claims import with_claims, without_plugins
    from numaforge.commands.inputs import read_config, read_devices, read_state
    from numaforge.kubelet.admission.fit import Scenario
    from numaforge.kubelet.admission.inventory import inventory_as_it_is

    node.require_machine(topology)
    machine = machine_of(topology, None)
    state = read_state(state_dir) if state_dir else None
    if node.planned:
        kubelet_of = given_kubelet(machine, config, drop_in, flags, kubelet_version)
        planned = node.node(kubelet_of, kubelet_version, state or {})
        scenario = planned.scenario(machine.hostname)
        if devices:
            scenario = replace(scenario, devices=read_devices(devices, planned.machine))
        return with_claims(_with_notice(scenario), planned.plan, objects)
    report = read_config(config, drop_in, flags, kubelet_version, machine)
    offered = without_plugins(inventory_as_it_is(machine), objects)
    scenario = Scenario(
        topology=machine,
        config=dict(report.effective),
        devices=read_devices(devices, machine) if devices else offered,
        state=state,
        version=report.version,
    )
    return with_claims(_with_notice(scenario), None, objects)


def _with_notice(scenario: Scenario) -> Scenario:
    """Remark on a kubelet newer than the known rules."""
    from numaforge.kubelet_minors.versions import KubeletVersion

    if scenario.version and (notice := KubeletVersion.parse(scenario.version).notice):
        remark(notice)
    return scenario
