"""A gang of Kubernetes' own scheduler over a virtual node and two of kwok's: together or not at all."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import requirements
from lab.cluster import Lab
from lab.kwok import KwokNodes
from tests.lab.cluster_command import ask
from tests.lab.gangs import GATES, PODS, SERVED, bound, create_unplaced
from tests.lab.rollouts import PROFILE, in_repository, inventory
from tests.lab.running_pods import make_runnable

pytestmark = [pytest.mark.long, pytest.mark.vm]
PLAYED = ("played-1", "played-2")


@dataclass(frozen=True)
class Cluster:
    """A provisioned virtual node, kwok beside it, and the snapshots of three such machines."""

    lab: Lab
    kwok: KwokNodes
    fleet: Path

    @property
    def name(self) -> str:
        return self.lab.nodes[0].name

    def add(self, name: str) -> None:
        """Have kwok play one more node, which offers what the virtual one does."""
        self.kwok.add_node(name, allocatable=self.lab.get("node", self.name)["status"]["allocatable"])

    def ask(self, *arguments: str) -> str:
        """Ask `numaforge cluster` with the lab's login."""
        done = ask(self.lab.control_plane, *arguments)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    requirements.ensure()
    folder = tmp_path_factory.mktemp("gang")
    lab = Lab(folder / "lab", gates=GATES, served=SERVED)
    lab.up(1)
    try:
        hosts = str(inventory(lab, folder / "inventory", profile=PROFILE))
        in_repository("pyinfra", "-y", hosts, "deploys/site.py")
        fleet = folder / "fleet"
        in_repository("numaforge", "capture", hosts, "--to", str(fleet))
        [captured] = fleet.iterdir()
        name = lab.nodes[0].name
        for played in PLAYED:
            (fleet / captured.name.replace(name, played)).write_text(
                captured.read_text().replace(name, played)
            )
        with KwokNodes(lab.control_plane, folder) as kwok:
            yield Cluster(lab, kwok, fleet)
    finally:
        lab.down()


def example(cluster: Cluster, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the PodGroup and the Job that are written for three such nodes, with an image that they have."""
    said = cluster.ask(
        "generate", "cluster", str(cluster.fleet), "--for", "gangs", "--live", "--to", str(folder)
    )
    assert (folder / "gangs/example.yaml").exists(), said
    group, job = yaml.safe_load_all((folder / "gangs/example.yaml").read_text())
    make_runnable(job)
    return group, job


def test_gang_starts_whole_or_not_at_all(cluster: Cluster, tmp_path: Path) -> None:
    group, job = example(cluster, tmp_path)
    name, api = group["metadata"]["name"], cluster.kwok
    cluster.add(PLAYED[0])
    create_unplaced(api, group, job, 1 + len(PLAYED))
    assert bound(api, name) == []
    first = api.get(PODS)["items"][0]["metadata"]["name"]
    said = cluster.ask("cluster", "explain", f"default/{first}", str(cluster.fleet), "--live")
    assert "2 of 3" in said, said
    cluster.add(PLAYED[1])
    api.wait_until(lambda: len(bound(api, name)) == 3, "the gang is not placed")
    assert sorted(bound(api, name)) == sorted([cluster.name, *PLAYED])
    selector = f"--selector=job-name={name}"
    cluster.lab.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pods", selector, "--timeout=600s")
    [real] = [pod for pod in api.get(PODS)["items"] if pod["spec"]["nodeName"] == cluster.name]
    state = json.loads(cluster.lab.nodes[0].run("cat /var/lib/kubelet/cpu_manager_state"))
    assert real["metadata"]["uid"] in state["entries"]
