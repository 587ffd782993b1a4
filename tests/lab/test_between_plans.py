"""A change between two plans that a boot cuts off: the old plan is whole again, with all that it promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.quantity import parse_quantity
from tests.lab import rollouts
from tests.lab.rollouts import PROFILE, QUICK, inventory
from tests.lab.transactions import CUTS, put_back, ready, reset_at

PLANNED = "planned"
"""The saved state of a node that is as the first plan says."""
BOOT_BYTES = 16 * 2**20
"""By how much a boot changes the memory of a machine; a page pool of one plan differs by more."""


def profile(pages: int, swappiness: int, reserved: str) -> dict[str, Any]:
    return {
        **PROFILE,
        "memory": {**PROFILE["memory"], "kube_reserved": reserved},
        "hugepages": [{"size": "2Mi", "count_per_numa_node": pages}],
        "tuning": {"sysctls": {"vm.swappiness": str(swappiness)}},
    }


FIRST, SECOND = profile(64, 33, "256Mi"), profile(32, 7, "320Mi")
EVENTS = ("apply kernel_values", "apply hugepages", "apply kubelet", "start kubelet", "prove kubelet")


def roll_out(lab: Lab, folder: Path, wanted: dict[str, Any]) -> rollouts.Rollout:
    file = inventory(lab, folder, profile=wanted, **QUICK)
    return rollouts.begin("run", file, state=folder, deploy="deploys/site.py")


@pytest.fixture(scope="module")
def allocatable(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Save a node that is as the first plan says, and return what it offers."""
    node = put_back(lab)
    run = roll_out(lab, tmp_path_factory.mktemp("first"), FIRST)
    assert run.end() == 0, (run.events, run.errors())
    ready(lab, node)
    offered = dict(lab.get("node", node.name)["status"]["allocatable"])
    node.pause()
    node.save(PLANNED)
    return offered


@pytest.fixture
def planned(lab: Lab, allocatable: dict[str, str]) -> Node:
    node = lab.nodes[0]
    node.power_off()
    node.wake(PLANNED)
    ready(lab, node)
    return node


@pytest.mark.long
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_between_two_plans_leaves_all_that_the_old_one_promises(
    lab: Lab, planned: Node, allocatable: dict[str, str], tmp_path: Path, cut: str, event: str
) -> None:
    reset_at(planned, event, cut)
    run = roll_out(lab, tmp_path / "second", SECOND)
    assert run.end() == 4, (run.events, run.errors())
    assert planned.run("ls /usr/local/bin/mv 2>&1 || true").endswith("No such file or directory\n")
    ready(lab, planned)
    now = dict(lab.get("node", planned.name)["status"]["allocatable"])
    memory, before = (parse_quantity(each.pop("memory")) for each in (now, dict(allocatable)))
    assert abs(memory - before) < BOOT_BYTES
    assert now.items() | {("memory", "")} >= {**allocatable, "memory": ""}.items()
    file = inventory(lab, tmp_path / "first", profile=FIRST, **QUICK)
    verified = rollouts.program("numaforge", "verify", str(file), "--limit", planned.name)
    assert verified.returncode == 0, verified.stdout
