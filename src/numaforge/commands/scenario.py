"""The node and the kubelet that `admit` and `fit` judge pods by."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from numaforge.commands.as_planned import AsPlanned, GivenKubelet, as_planned_options
from numaforge.commands.machine import machine_of
from numaforge.commands.options import GroupedOption, offered, path_option
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
    path_option(
        "--devices",
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
    topology: str | None, objects: ClaimWorld, *, devices: str | None, node: AsPlanned, **kubelet: Any
) -> Scenario:
    """Return a machine with kubelet, devices and state, planned or as it is; `kubelet` is a GivenKubelet."""
    from numaforge.cluster.explain.node_claims import with_claims, without_plugins
    from numaforge.commands.inputs import read_config, read_devices, read_state
    from numaforge.kubelet.admission.fit import Scenario
    from numaforge.kubelet.admission.inventory import inventory_as_it_is
    from numaforge.kubelet_minors.versions import KubeletVersion

    given = GivenKubelet(**kubelet)
    node.require_machine(topology)
    machine = machine_of(topology, None)
    state = read_state(given.state_dir) if given.state_dir else None
    plan = None
    if node.planned:
        planned = node.node(given.on(machine), given.kubelet_version, state or {})
        scenario, machine, plan = planned.scenario(machine.hostname), planned.machine, planned.plan
    else:
        report = read_config(machine, given)
        offered = without_plugins(inventory_as_it_is(machine), objects)
        scenario = Scenario(machine, dict(report.effective), offered, state, report.version)
    if devices:
        scenario = replace(scenario, devices=read_devices(devices, machine))
    if scenario.version and (notice := KubeletVersion.parse(scenario.version).notice):
        remark(notice)  # a kubelet newer than the known rules
    return with_claims(scenario, plan, objects)
