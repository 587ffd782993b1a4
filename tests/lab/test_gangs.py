"""Gangs of Kubernetes' own scheduler, written from plans: together or not at all, and explained."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.kwok import ALLOCATABLE, Fleet
from numaforge.cluster.schedulers.kubectl_get import Kubectl
from numaforge.cluster.schedulers.systems import generate
from numaforge.machine.topology.document import to_document
from tests.lab.cluster_command import ask
from tests.lab.gangs import GATES, JOBS, PODS, SERVED, VERSION, bound, conditions, create_unplaced
from tests.unit.cluster.schedulers.served import served

pytestmark = pytest.mark.lab
NODES = [served("dgx-h100", hostname=f"dgx-{number}", kubelet="1.37.2") for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two of the three nodes that the plans are for."""
    state = tmp_path_factory.mktemp("gangs")
    with Fleet(state, gates=GATES, served=SERVED) as fleet:
        for node in NODES[:2]:
            add(fleet, node.name)
        yield fleet


def add(fleet: Fleet, name: str) -> None:
    fleet.add_node(
        name, allocatable=ALLOCATABLE | {"cpu": "1000", "memory": "100Ti", "hugepages-1Gi": "10Ti"}
    )


def example(fleet: Fleet) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the PodGroup and the Job in the version that this API server says it serves."""
    version = Kubectl(str(fleet.kubeconfig), kubectl=str(fleet.control_plane.kubectl())).gang_version()
    assert version == VERSION
    [folder] = generate(NODES, ["gangs"], version)
    group, job = yaml.safe_load_all(dict(folder.texts())["example.yaml"])
    return group, job


def test_pods_outside_a_gang_start_individually(fleet: Fleet) -> None:
    _, job = example(fleet)
    del job["spec"]["template"]["spec"]["schedulingGroup"]
    job["metadata"]["name"] = "loose"
    fleet.send("POST", JOBS, job)
    fleet.wait_until(lambda: len(bound(fleet, "loose")) == 2, "two of three pods are not placed")
    withdraw(fleet, "loose")


def test_gang_starts_whole_or_not_at_all_and_waiting_is_explained(fleet: Fleet, tmp_path: Path) -> None:
    group, job = example(fleet)
    name = group["metadata"]["name"]
    create_unplaced(fleet, group, job, len(NODES))
    assert bound(fleet, name) == []
    said = explained(fleet, tmp_path)
    assert "2 of 3" in said, said
    add(fleet, NODES[2].name)
    fleet.wait_until(lambda: len(bound(fleet, name)) == 3, "the gang is not placed")
    assert sorted(bound(fleet, name)) == [node.name for node in NODES]
    assert conditions(fleet, name)["PodGroupInitiallyScheduled"][0] == "True"
    withdraw(fleet, job["metadata"]["name"])
    fleet.send("DELETE", f"/api/v1/nodes/{NODES[2].name}")


def withdraw(fleet: Fleet, job: str) -> None:
    fleet.send("DELETE", f"{JOBS}/{job}?propagationPolicy=Foreground")
    fleet.wait_until(lambda: not fleet.get(PODS)["items"], "the Job's pods are not gone")


def explained(fleet: Fleet, folder: Path) -> str:
    for node in NODES:
        (folder / f"{node.name}.json").write_text(json.dumps(to_document(node.machine)))
    pod = fleet.get(PODS)["items"][0]["metadata"]["name"]
    done = ask(
        fleet.control_plane, "cluster", "explain", f"default/{pod}", str(folder), "--profile", "training"
    )
    return done.stdout + done.stderr
