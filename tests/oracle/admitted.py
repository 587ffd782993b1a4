"""The nodes of the oracle's cases, and the first pod on which the simulator and the kubelet differ."""

from collections.abc import Collection, Mapping
from typing import Any

from lab.oracle import Answer
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from tests.fixtures.admitted import outcome
from tests.oracle.case import Case
from tests.oracle.machines import described, topology


def node_of(case: Case, answer: Answer, version: str) -> Node | str | None:
    """Return a case's node; where it does not start, what the kubelet says otherwise, None if the same."""
    report = _report(case, version)
    if answer["error"] or not report.starts:
        return None if answer["error"] and not report.starts else f"the kubelet says {answer['error']!r}"
    return _started(case, report, version)


def differing_pod(case: Case, answer: Answer, version: str, folder: str) -> str | None:
    """Say where the simulator and the kubelet differ first; the kubelet's texts name its `folder`."""
    node = node_of(case, answer, version)
    if not isinstance(node, Node):
        return node
    theirs, restarts = iter(answer.get("admissions", [])), iter(answer.get("restarts", []))
    specs = {each["name"]: each["spec"] for each in case.operations if "spec" in each}
    running: list[str] = []
    for operation in case.operations:
        if "remove" in operation:
            running = [name for name in running if name != operation["remove"]]
            if operation["remove"] in node.pods:
                node.remove(operation["remove"])
            continue
        pods = [operation["name"]] if "spec" in operation else running
        if "restart" in operation:
            again = _restarted(case, next(restarts), version, folder, running)
            if not isinstance(again, Node):
                return again
            node, running = again, []
        for name in pods:
            ours, expected = outcome(node.admit(specs[name], name), specs[name]), next(theirs)
            if ours != expected:
                return f"the kubelet answers {expected}, the simulator {ours}"
            running += [name] if expected["admit"] else []
    return None


def _restarted(
    case: Case, restart: Mapping[str, Any], version: str, folder: str, running: Collection[str]
) -> Node | str | None:
    """Return the node as it starts from the kubelet's state files; else as `node_of`."""
    report = _report(case, version, restart["state"], f"{folder}/root")
    error = restart.get("error", "")
    if (report.error or "") != error:
        return f"the kubelet starts again with {error!r}, and ours with {report.error!r}"
    if error:
        return None
    node = _started(case, report, version, restart["state"])
    for gone in {*node.pods} - {*running}:
        node.remove(gone)
    node.restart_with(running)
    return node


def _report(
    case: Case, version: str, state: Mapping[str, str] | None = None, root_dir: str = "/var/lib/kubelet"
) -> Report:
    assert case.machine is not None
    machine = topology(described(case.machine))
    return check(case.text, topology=machine, version=version, state_files=state, root_dir=root_dir)


def _started(case: Case, report: Report, version: str, state: Mapping[str, str] | None = None) -> Node:
    assert case.machine is not None
    inventory = {name: [device["numa_nodes"] for device in devices] for name, devices in case.devices.items()}
    return Node(
        topology(described(case.machine)),
        report.effective,
        inventory,
        state=state,
        predicates=False,
        version=version,
    )
