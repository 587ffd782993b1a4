"""We and rdma-core's `rdma_topo` agree; NUMAFORGE_RDMA_TOPO names a checkout of rdma-core to ask it anew."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from numaforge.findings.engine import check
from numaforge.findings.gpudirect.access_control import Layout, required_control, wrong_bits
from numaforge.findings.gpudirect.rules import RULES
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from tests.conformance.record_rdma_topo import FILE, answers, version
from tests.fixtures.pcie import MACHINES, machine_of

RECORD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
RECORDED: dict[str, dict[str, Any]] = RECORD["machines"]
KNOWN = sorted(name for name, answer in RECORDED.items() if "refused" not in answer)
REFUSED = sorted(RECORDED.keys() - KNOWN)
ABOUT = {"GD202", "GD203", "GD204", "GD205", "GD301", "GD303", "GD304"}

OURS_ALONE = {
    # What NCCL needs below any PCIe switch; the script knows NVIDIA's own.
    "hgx-h100-and-a-bluefield": Layout.SWITCHES,
    "hgx-h100-as-shipped": Layout.SWITCHES,
    "hgx-h100-without-redirects": Layout.SWITCHES,
    # Its root ports need what the kernel sets by itself, also where a GPU is lost.
    "gb200-a-socket-without-gpus": Layout.ROOT_PORTS,
}
"""Machines that the script refuses and numaforge judges, with how it takes them to be built."""


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> NodeTopology:
    return machine_of(tmp_path, MACHINES[request.param]())


def test_record_names_its_version() -> None:
    assert RECORD["version"].startswith("rdma-core 6")


def test_record_matches_the_answers_of_rdma_topo() -> None:
    checkout = os.environ.get("NUMAFORGE_RDMA_TOPO")
    if not checkout:
        pytest.skip("NUMAFORGE_RDMA_TOPO does not name a checkout of rdma-core")
    assert {"version": version(Path(checkout)), "machines": answers(Path(checkout))} == RECORD


def test_record_covers_every_machine() -> None:
    assert sorted(RECORDED) == sorted(MACHINES)


@pytest.mark.parametrize(("machine", "name"), [(name, name) for name in KNOWN], indirect=["machine"])
def test_each_bridge_is_judged_as_by_rdma_topo(machine: NodeTopology, name: str) -> None:
    masks = required_control(machine).masks
    held = {each.pci_address: each.access_control for each in machine.pci_functions}
    ours = {}
    for address, mask in masks.items():
        control = held[address]
        assert control.control is not None
        ours[address] = not wrong_bits(mask, control.control)
    assert ours == RECORDED[name]["bridges"]


@pytest.mark.parametrize(("machine", "name"), [(name, name) for name in KNOWN], indirect=["machine"])
def test_machine_passes_the_rules_exactly_where_rdma_topo_passes(machine: NodeTopology, name: str) -> None:
    found = {judged.rule.id for judged in check(RULES, machine) if judged.findings}
    assert (not found & ABOUT) is RECORDED[name]["sound"]


@pytest.mark.parametrize(("machine", "name"), [(name, name) for name in KNOWN], indirect=["machine"])
def test_required_config_acs_parameter_matches_rdma_topo(machine: NodeTopology, name: str) -> None:
    plan = plan_node(machine, load_profile({"name": "t", "rdma": {"gpudirect": {"acs": "correct"}}}))
    answer = RECORDED[name]
    wanted = "" if all(answer["bridges"].values()) else answer["config_acs"]
    assert ";".join(plan.kernel.cmdline) == (f"pci=config_acs={wanted}" if wanted else "")


@pytest.mark.parametrize(("machine", "name"), [(name, name) for name in REFUSED], indirect=["machine"])
def test_no_bridge_is_set_without_values_from_rdma_topo(machine: NodeTopology, name: str) -> None:
    required = required_control(machine)
    judged = required.unknown is None and required.layout is not Layout.APART
    assert (required.layout if judged else None) is OURS_ALONE.get(name)
    assert bool(required.masks) is judged
