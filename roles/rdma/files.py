"""The gate for which the kubelet waits at boot, and the files that configure libraries for the rails."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote, split
from typing import TYPE_CHECKING, Any

from numaforge.lib.file_content import FileContent, PlannedFile, everywhere
from numaforge.lib.shell import library
from numaforge.roles.rdma.environment import environment
from numaforge.roles.rdma.nccl_conf import KEPT, is_admins, parse
from numaforge.roles.rdma.nccl_topology import of_hidden_switches
from numaforge.roles.rdma.paths import (
    CONF_PATHS,
    LIBRARY_PATHS,
    NCCL_TOPOLOGY_PATH,
    RAILS_ENV_PATH,
    RDMA_GATE_SCRIPT_PATH,
    RDMA_GATE_UNIT_PATH,
)
from numaforge.roles.template import Both, Template, program_template, unit_template, xml_comment

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.node.part import NodeState
    from numaforge.planning.plan import NodePlan


def _gate_command(plan: NodePlan) -> str:
    gate = plan.rdma.host.gate
    wishes = [*gate.devices, *(f"{a}={n}" for a, n in sorted(gate.virtual_functions.items()))] if gate else []
    return " ".join(("/bin/sh", RDMA_GATE_SCRIPT_PATH, str(gate.seconds if gate else 0), *wishes))


def _conf(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    libraries = plan.rdma.libraries
    admin_conf = None if libraries.admin_conf is None else libraries.admin_conf.removesuffix("\n")
    return {"nccl": libraries.nccl, "admin_conf": admin_conf, "kept": KEPT}


def _quoted_variables(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    """Return the host's variables, quoted for shells and systemd where needed."""
    variables = environment(plan.rdma.libraries, "host")
    return {"variables": {name: quote(value) for name, value in variables.items()}}


def _topology(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    return {
        "topology": of_hidden_switches(plan.rdma.libraries.hidden_switches),
        "comment": xml_comment(plan),
    }


def _read_conf(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    libraries = plan.rdma.libraries
    return parse(text), {**parse(libraries.admin_conf or ""), **libraries.nccl}


def _read_variables(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    words = [word.partition("=") for word in split(text, comments=True)]
    return {name: value for name, _, value in words}, environment(plan.rdma.libraries, "host")


def _read_topology(plan: NodePlan, _: PlannedFile, text: str) -> Both:
    from xml.etree import ElementTree  # few hosts have the file

    below = {
        pci.get("busid"): [inner.get("busid") for inner in pci]
        for pci in ElementTree.fromstring(text).iterfind("cpu/pci")  # noqa: S314 (our own text)
    }
    switches = plan.rdma.libraries.hidden_switches
    return below, {switch.pci_address: sorted([*switch.gpus, *switch.nics]) for switch in switches}


TEMPLATES = {
    "rdma/gate.sh.j2": program_template(lambda _: library("roles/rdma/at_boot")),
    "rdma/gate.service.j2": unit_template(_gate_command),
    "rdma/nccl.conf.j2": Template(_read_conf, _conf),
    "rdma/rails.env.j2": Template(_read_variables, _quoted_variables),
    "rdma/nccl-topology.xml.j2": Template(_read_topology, _topology),
}


def files(plan: NodePlan) -> tuple[PlannedFile, ...]:
    """Return the files of the boot gate, and those that configure libraries for the rails."""
    libraries = plan.rdma.libraries
    planned_files = []
    if plan.rdma.host.gate:
        planned_files += [
            PlannedFile(RDMA_GATE_SCRIPT_PATH, "rdma", "rdma/gate.sh.j2"),
            PlannedFile(RDMA_GATE_UNIT_PATH, "rdma", "rdma/gate.service.j2"),
        ]
    if libraries.hidden_switches:
        planned_files.append(PlannedFile(NCCL_TOPOLOGY_PATH, "rdma", "rdma/nccl-topology.xml.j2"))
    if libraries.nccl_conf:
        planned_files.append(PlannedFile(libraries.conf_path, "rdma", "rdma/nccl.conf.j2"))
    if libraries.env_file:
        planned_files.append(PlannedFile(RAILS_ENV_PATH, "rdma", "rdma/rails.env.j2"))
    return tuple(planned_files)


paths = everywhere(RDMA_GATE_SCRIPT_PATH, RDMA_GATE_UNIT_PATH, *LIBRARY_PATHS)


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
    admins = {path for path in CONF_PATHS if is_admins(state.text(path))}
    return files, [path for path in absent if path not in admins]
