"""The nodes of the oracle's cases."""

from __future__ import annotations

from lab.oracle import Answer, Oracle
from numaforge.kubelet.admission import Node
from numaforge.kubelet.startup.check import check
from tests.oracle.case import Case
from tests.oracle.machines import described, topology


def node_of(case: Case, answer: Answer, oracle: Oracle) -> Node | str | None:
    """Return a case's node; where it does not start, what the kubelet says otherwise, None if the same."""
    assert case.machine is not None
    machine = topology(described(case.machine))
    report = check(case.text, topology=machine, version=oracle.version)
    if answer["error"] or not report.starts:
        return None if answer["error"] and not report.starts else f"the kubelet says {answer['error']!r}"
    inventory = {name: [device["numa_nodes"] for device in devices] for name, devices in case.devices.items()}
    return Node(machine, report.effective, inventory, predicates=False, version=oracle.version)
