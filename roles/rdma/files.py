"""The gate for which the kubelet waits at boot, and the files that configure libraries for the rails."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import FileContent, PlannedFile, everywhere
from numaforge.lib.shell import library
from numaforge.roles.rdma import planned
from numaforge.roles.rdma.environment import environment
from numaforge.roles.rdma.nccl_conf import KEPT, is_admins
from numaforge.roles.rdma.nccl_topology import of_hidden_switches
from numaforge.roles.template import Lines, program_values, xml_comment

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.node.part import NodeState
    from numaforge.planning.plan import NodePlan


def _gate_command(plan: NodePlan) -> str:
    gate = plan.rdma.host.gate
    wishes = [*gate.devices, *(f"{a}={n}" for a, n in sorted(gate.virtual_functions.items()))] if gate else []
    return " ".join(("/bin/sh", planned.RDMA_GATE_SCRIPT_PATH, str(gate.seconds if gate else 0), *wishes))


def _conf(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    libraries = plan.rdma.libraries
    admin_conf = None if libraries.admin_conf is None else Lines(libraries.admin_conf.removesuffix("\n"))
    return {"nccl": libraries.nccl, "admin_conf": admin_conf, "kept": KEPT}


def _quoted_variables(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    """Return the host's variables, quoted for shells and systemd where needed."""
    variables = environment(plan.rdma.libraries, "host")
    return {"variables": {name: quote(value) for name, value in variables.items()}}


def _topology(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {
        "topology": Lines(of_hidden_switches(plan.rdma.libraries.hidden_switches)),
        "comment": xml_comment(plan),
    }


TEMPLATES = {
    "rdma/gate.sh.j2": program_values(lambda: library("roles/rdma/at_boot")),
    "rdma/gate.service.j2": lambda plan, _: {"command": _gate_command(plan)},
    "rdma/nccl.conf.j2": _conf,
    "rdma/rails.env.j2": _quoted_variables,
    "rdma/nccl-topology.xml.j2": _topology,
}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files of the boot gate, and those that configure libraries for the rails."""
    libraries = plan.rdma.libraries
    planned_files = []
    if plan.rdma.host.gate:
        planned_files += [
            PlannedFile(planned.RDMA_GATE_SCRIPT_PATH, "rdma", "rdma/gate.sh.j2"),
            PlannedFile(planned.RDMA_GATE_UNIT_PATH, "rdma", "rdma/gate.service.j2"),
        ]
    if libraries.hidden_switches:
        planned_files.append(PlannedFile(planned.NCCL_TOPOLOGY_PATH, "rdma", "rdma/nccl-topology.xml.j2"))
    if libraries.nccl_conf:
        planned_files.append(PlannedFile(libraries.conf_path, "rdma", "rdma/nccl.conf.j2"))
    if libraries.env_file:
        planned_files.append(PlannedFile(planned.RAILS_ENV_PATH, "rdma", "rdma/rails.env.j2"))
    return tuple(planned_files)


paths = everywhere(planned.RDMA_GATE_SCRIPT_PATH, planned.RDMA_GATE_UNIT_PATH, *planned.LIBRARY_PATHS)


def others(plan: NodePlan, config_text: str | None, _text_of: object) -> list[FileContent]:
    """Return the admin's own file for NCCL or RCCL, which is put back where we no longer write ours."""
    libraries_plan = plan.rdma.libraries
    if libraries_plan.nccl_conf or libraries_plan.admin_conf is None:
        return []
    return [FileContent(libraries_plan.conf_path, libraries_plan.admin_conf)]


def files_on_node(
    goal: Goal, state: NodeState, files: list[FileContent], absent: list[str]
) -> tuple[list[FileContent], list[str]]:
    """Return both lists, keeping an /etc/nccl.conf or /etc/rccl.conf that is the admin's."""
    admins = {path for path in planned.CONF_PATHS if is_admins(state.text(path))}
    return files, [path for path in absent if path not in admins]
