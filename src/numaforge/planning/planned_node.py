"""The node after its plan: the machine, the kubelet's configuration, the devices that it offers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.fit import Scenario
from numaforge.kubelet.findings import Report, require_start
from numaforge.lib.file_content import FileContent
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.as_planned import machine_as_planned
from numaforge.planning.plan import NodePlan
from numaforge.roles.device_plugin.plan import devices_of
from numaforge.roles.kubelet.effect import effect


class PlannedNode(NamedTuple):
    """A node after its plan is applied.

    `kubelet` is the startup report on its planned files. `state` maps the name of each state file to its
    text, without those that the plan removes.
    """

    machine: NodeTopology
    kubelet: Report
    devices: Inventory
    state: Mapping[str, str]
    plan: NodePlan

    def scenario(self, where: str | None) -> Scenario:
        """Return the node to fill; raises KubeletConfigError, at `where`, if its kubelet would not start."""
        require_start(self.kubelet, where)
        kubelet = self.kubelet
        return Scenario(self.machine, kubelet.effective, self.devices, self.state or None, kubelet.version)


def planned_node(
    machine: NodeTopology, plan: NodePlan, files: Sequence[FileContent], state: Mapping[str, str]
) -> PlannedNode:
    """Return the node after its plan; `machine` was captured before or after the plan was applied.

    `files` are those of the kubelet's role, `state` the kubelet's current state files, by name. Raises
    KubeletConfigError where no kubelet is planned.
    """
    install = machine.kubelet
    planned_machine = machine_as_planned(machine, plan)
    drop_ins = install.drop_ins if install else {}
    expected = effect(plan, machine, planned_machine, files, machine.kubelet_config, drop_ins, state)
    removed_names = {path.rpartition("/")[2] for path in expected.removals}
    kept_state = {name: text for name, text in state.items() if name not in removed_names}
    return PlannedNode(planned_machine, expected.after, devices_of(planned_machine, plan), kept_state, plan)
