"""What libraries are told of the rails: NCCL's own file and topology, and variables for the rest."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from shlex import quote, split
from typing import Any

from numaforge.planning.model import NodePlan, PlannedFile
from numaforge.render.texts import Both, Template, xml_comment
from numaforge.roles.rdma.environment import environment
from numaforge.roles.rdma.nccl_conf import KEPT, parse
from numaforge.roles.rdma.nccl_topology import of_hidden_switches


def _conf(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    libraries = plan.rdma.libraries
    admin_conf = None if libraries.admin_conf is None else libraries.admin_conf.removesuffix("\n")
    return {"nccl": libraries.nccl, "admin_conf": admin_conf, "kept": KEPT}


def _variables(plan: NodePlan, _: PlannedFile) -> Mapping[str, Any]:
    """Return the host's variables, quoted for shells and systemd where they have to be."""
    told = environment(plan.rdma.libraries, "host")
    return {"variables": {name: quote(value) for name, value in told.items()}}


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
    below = {
        pci.get("busid"): [inner.get("busid") for inner in pci]
        for pci in ET.fromstring(text).iterfind("cpu/pci")  # noqa: S314 (our own text)
    }
    switches = plan.rdma.libraries.hidden_switches
    return below, {switch.pci_address: sorted([*switch.gpus, *switch.nics]) for switch in switches}


TEMPLATES = {
    "rdma/nccl.conf.j2": Template(_read_conf, _conf),
    "rdma/rails.env.j2": Template(_read_variables, _variables),
    "rdma/nccl-topology.xml.j2": Template(_read_topology, _topology),
}
