"""We and rdma-core's `rdma_topo` agree; NUMAFORGE_RDMA_TOPO names the script to ask it anew."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from numaforge.findings.engine import check
from numaforge.findings.gpudirect.access_control import required_control, wrong_bits
from numaforge.findings.gpudirect.rules import RULES
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.topology.model import NodeTopology
from tests.conformance.rdma_topo import ANSWERS, answers
from tests.fixtures.pcie import MACHINES, machine_of

RECORDED = json.loads(ANSWERS.read_text(encoding="utf-8"))
KNOWN = sorted(name for name, answer in RECORDED.items() if answer["bridges"] is not None)
ABOUT = {"GD202", "GD203", "GD204", "GD205", "GD301", "GD303"}


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> NodeTopology:
    return machine_of(tmp_path, MACHINES[request.param]())


def test_the_answers_are_those_of_the_script() -> None:
    script = os.environ.get("NUMAFORGE_RDMA_TOPO")
    if not script:
        pytest.skip("NUMAFORGE_RDMA_TOPO does not name rdma-core's kernel-boot/rdma_topo")
    assert answers(Path(script)) == RECORDED


def test_every_machine_was_asked_about() -> None:
    assert sorted(RECORDED) == sorted(MACHINES)


@pytest.mark.parametrize(("machine", "name"), [(name, name) for name in KNOWN], indirect=["machine"])
def test_each_bridge_is_judged_alike(machine: NodeTopology, name: str) -> None:
    masks = required_control(machine).masks
    held = {each.pci_address: each.access_control for each in machine.pci_functions}
    ours = {}
    for address, mask in masks.items():
        control = held[address]
        assert control is not None
        assert control.control is not None
        ours[address] = not wrong_bits(mask, control.control)
    assert ours == RECORDED[name]["bridges"]


@pytest.mark.parametrize(("machine", "name"), [(name, name) for name in KNOWN], indirect=["machine"])
def test_a_machine_is_found_wanting_alike(machine: NodeTopology, name: str) -> None:
    found = {judged.rule.id for judged in check(RULES, machine) if judged.findings}
    assert (not found & ABOUT) is RECORDED[name]["sound"]


@pytest.mark.parametrize(("machine", "name"), [(name, name) for name in KNOWN], indirect=["machine"])
def test_the_parameter_is_the_same_where_one_is_needed(machine: NodeTopology, name: str) -> None:
    plan = plan_node(machine, load_profile({"name": "t", "rdma": {"gpudirect": {"acs": "correct"}}}))
    answer = RECORDED[name]
    wanted = "" if all(answer["bridges"].values()) else answer["config_acs"]
    assert ";".join(plan.kernel.cmdline) == (f"pci=config_acs={wanted}" if wanted else "")
