"""What programs may import: names that keep their meaning between minor versions. All else may move."""

from __future__ import annotations

from numaforge.errors import NumaforgeError
from numaforge.findings import Finding
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile, ready_profiles
from numaforge.render import render_plan
from numaforge.roles.document import dumps, loads
from numaforge.roles.node import NodePlan, NodeProfile
from numaforge.snapshot import Snapshot, from_local, from_root
from numaforge.topology import from_document, read_topology, to_document
from numaforge.topology.model import NodeTopology
from numaforge.topology.ready import ready_machine, ready_machines

__all__ = [
    "Finding",
    "NodePlan",
    "NodeProfile",
    "NodeTopology",
    "NumaforgeError",
    "Report",
    "Snapshot",
    "check",
    "dumps",
    "from_document",
    "from_local",
    "from_root",
    "load_profile",
    "loads",
    "plan_node",
    "read_topology",
    "ready_machine",
    "ready_machines",
    "ready_profiles",
    "render_plan",
    "to_document",
]
