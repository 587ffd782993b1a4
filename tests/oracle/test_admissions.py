"""The admission simulator and the kubelet's own managers on random pods: the same answers and shares."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from lab.oracle import Answer, Oracle
from lab.progress import say
from numaforge.cpulist import format_cpulist
from numaforge.kubelet.admission import Admission, Node
from numaforge.kubelet.startup.check import check
from tests.oracle.admissions import PODS, sequence
from tests.oracle.case import Case
from tests.oracle.comparison import Comparison
from tests.oracle.machines import described, topology
from tests.oracle.scale import ASKED, SCALE, oracle_of, share

ADMISSIONS = 27_000


def disagreement(case: Case, answer: Answer, oracle: Oracle) -> str | None:
    """Say where the simulator and the kubelet differ first on a sequence of pods."""
    node = node_of(case, answer, oracle)
    if not isinstance(node, Node):
        return node
    theirs = iter(answer.get("admissions", []))
    for operation in case.operations:
        if "remove" in operation:
            if operation["remove"] in node.pods:
                node.remove(operation["remove"])
            continue
        ours, expected = (
            outcome(node.admit(operation["spec"], operation["name"]), operation["spec"]),
            next(theirs),
        )
        if ours != expected:
            return f"the kubelet answers {expected}, the simulator {ours}"
    return None


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


@pytest.mark.long
@pytest.mark.parametrize("minor", ASKED)
def test_admits_as_the_kubelet(minor: str) -> None:
    random = Random(f"admissions/{minor}/{SCALE}")  # noqa: S311
    with oracle_of(minor) as oracle:
        cases = [sequence(random, oracle.version) for _ in range(-(-share(ADMISSIONS) // PODS))]
        comparison = Comparison(oracle, disagreement)
        complaints = comparison.run(cases)
    answers = [admission for answer in comparison.answers for admission in answer.get("admissions", [])]
    admitted = sum(answer["admit"] for answer in answers)
    say(f"{oracle.version}: {len(answers)} admissions, {admitted} admitted, {comparison.undecided} undecided")
    assert not complaints, "\n\n".join(complaints)
    assert len(answers) >= share(ADMISSIONS)
    assert len(answers) / 4 < admitted < len(answers) * 3 / 4
    assert comparison.undecided < len(cases) / 20
