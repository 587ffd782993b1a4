"""Our admissions in the form of the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.oracle import Answer, Oracle
from numaforge.cpulist import format_cpulist
from numaforge.kubelet.admission import Admission, Node
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


def outcome(admission: Admission, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return an admission in the oracle's form (`Admission` in lab/go/oracle/admission.go)."""
    if not admission.admitted:
        return {
            "name": admission.name,
            "admit": False,
            "reason": admission.reason,
            "message": admission.message,
        }
    names = [container["name"] for container in [*spec.get("initContainers", []), *spec["containers"]]]
    return {
        "name": admission.name,
        "admit": True,
        "containers": {name: _got(admission, name) for name in names},
    }


def _got(admission: Admission, name: str) -> dict[str, Any]:
    got: dict[str, Any] = {}
    if name in admission.cpus:
        got["cpus"] = format_cpulist(admission.cpus[name])
    if admission.memory.get(name):
        got["memory"] = sorted(map(str, admission.memory[name]))
    devices = {resource: sorted(ids) for resource, ids in admission.devices.get(name, {}).items() if ids}
    return got | ({"devices": devices} if devices else {})
