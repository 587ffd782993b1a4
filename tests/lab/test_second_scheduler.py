"""scheduler-plugins' own code as second scheduler, with the objects that `generate cluster` writes.

It is built from a clone that NUMAFORGE_SCHEDULER_PLUGINS names (`make test-second-scheduler`), and runs
beside the lab's scheduler, for two real kubelets. NUMAFORGE_SCHEDULER_RECORD names a file for what was seen.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import gobuild, requirements
from lab.cluster import Lab
from lab.node import Node
from lab.second_scheduler import CLONES, NAME, PLUGINS, Clones, SecondScheduler, build
from lab.waiting import wait_until
from numaforge.cluster.schedulers.coscheduling import GROUP_LABEL
from numaforge.lib.cpulist import format_cpulist
from tests.lab.cluster_command import ask
from tests.lab.placements import GPU, placements_of
from tests.lab.rollouts import PROFILE, in_repository, inventory, kubectl
from tests.lab.running_pods import make_runnable, pod

pytestmark = [pytest.mark.long, pytest.mark.vm]
PATIENCE_S = 600
WITHIN = f"--timeout={PATIENCE_S}s"
SYSTEMS = ("noderesourcetopology", "coscheduling")
ASKED = {"cpu": "2", "memory": "256Mi", GPU: "2"}
"""Two GPUs with two CPUs: a NUMA node of the large node has them, the small node has a GPU on each."""
WEB = {"cpu": "5", "memory": "128Mi"}
"""What makes the large node the busier one; Burstable, so that no NUMA node is asked for it."""
FULL = {"cpu": "4"}
"""What leaves the small node nothing."""
UNTRIED_S = 240
"""Less than the five minutes after which a scheduler goes through all pods that wait."""
TOPOLOGIES = "noderesourcetopologies.topology.node.k8s.io"


@pytest.fixture(scope="module")
def clones() -> Clones:
    found = Clones.named()
    if found is None:
        pytest.skip(f"{CLONES} names no clone of scheduler-plugins")
    return found


@dataclass(frozen=True)
class Pair:
    """A lab of a large and a small node, what was captured of them, and what is written of their plans."""

    lab: Lab
    fleet: Path
    written: Path
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def large(self) -> Node:
        return self.lab.nodes[0]

    @property
    def small(self) -> Node:
        return self.lab.nodes[1]

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Ask `numaforge cluster` with the lab's login."""
        return ask(self.lab.control_plane, *arguments)

    def explained(self, manifest: Path) -> dict[str, Any]:
        """Return what is said of pods that are not there yet, by node."""
        said = self.ask("cluster", "explain", str(manifest), str(self.fleet), "--live", "-o", "json")
        [answer] = json.loads(said.stdout)["workloads"]
        return dict(answer)

    def create(self, manifest: dict[str, Any]) -> None:
        kubectl(self.lab, "create", "-f", "-", manifest=manifest)

    def pod(self, name: str) -> dict[str, Any]:
        return dict(self.lab.get("pod", name))


@pytest.fixture(scope="module")
def pair(clones: Clones, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two provisioned workers, the schemas of the second scheduler's objects, and the second scheduler."""
    program = build(clones)
    requirements.ensure()
    folder = tmp_path_factory.mktemp("pair")
    lab = Lab(folder / "lab")
    lab.up(2)
    try:
        hosts = str(inventory(lab, folder / "inventory", profile=PROFILE))
        in_repository("pyinfra", "-y", hosts, "deploys/site.py")
        in_repository("numaforge", "capture", hosts, "--to", str(folder / "fleet"))
        for each in clones.definitions:
            lab.kubectl("create", "-f", str(each))
        lab.kubectl("wait", "--for=condition=Established", "crd", "--all", WITHIN)
        asked = [argument for each in SYSTEMS for argument in ("--for", each)]
        written = folder / "cluster"
        in_repository("numaforge", "generate", "cluster", str(folder / "fleet"), *asked, "--to", str(written))
        with SecondScheduler(lab.control_plane, program) as scheduler:
            pair = Pair(lab, folder / "fleet", written)
            pair.seen["releases"] = releases(clones)
            yield pair
            scheduler.require_alive()
        record(pair.seen)
    finally:
        lab.down()


def releases(clones: Clones) -> dict[str, Any]:
    return {
        "scheduler-plugins": clones.commit,
        "kubernetes of the second scheduler": gobuild.version(clones.component()),
        "kubernetes": gobuild.version(gobuild.KUBERNETES),
        "plugins": list(PLUGINS),
    }


def record(seen: dict[str, Any]) -> None:
    if (name := os.environ.get("NUMAFORGE_SCHEDULER_RECORD")) and "gang" in seen:
        Path(name).write_text(json.dumps(seen, indent=1) + "\n")


def train(scheduler: str | None, folder: Path) -> Path:
    """Write the pod that is asked about, for one of the schedulers."""
    document = pod("train", ASKED)
    spec: Any = document["spec"]
    if scheduler:
        spec["schedulerName"] = scheduler
    path = folder / "train.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def apply(pair: Pair, system: str) -> None:
    manager = f"--field-manager=numaforge-{system}"
    pair.lab.kubectl("apply", "--server-side", "--validate=strict", manager, "-k", str(pair.written / system))


@pytest.fixture
def busy(pair: Pair) -> Iterator[None]:
    """A Burstable pod on the large node, which leaves the small one the emptier for every scheduler."""
    fill(pair, pair.large, "web", WEB)
    yield
    pair.lab.kubectl("delete", "jobs,podgroups.scheduling.x-k8s.io,pods", "--all", "--wait", WITHIN)


def fill(pair: Pair, node: Node, name: str, requests: dict[str, str]) -> None:
    """Have a Burstable pod run on a node."""
    document: Any = pod(name, requests)
    document["spec"]["nodeName"] = node.name
    document["spec"]["containers"][0]["resources"].pop("limits")
    pair.create(document)
    pair.lab.kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{name}", WITHIN)


def explained_by_node(pair: Pair, manifest: Path) -> dict[str, str]:
    answer = pair.explained(manifest)
    assert (answer["fit"], answer["disagree"]) == (1, [pair.small.name])
    assert all(each["scheduler"]["sends"] for each in answer["nodes"])
    return {each["node"]: each["kubelet"]["reason"] or "admitted" for each in answer["nodes"]}


def refused(pair: Pair) -> dict[str, Any]:
    """Return the pod when its kubelet has refused it, on the small node."""
    pair.lab.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/train", WITHIN)
    found = pair.pod("train")
    assert found["spec"]["nodeName"] == pair.small.name
    assert found["status"]["reason"] == "TopologyAffinityError"
    return found


@pytest.mark.usefixtures("busy")
def test_default_scheduler_picks_a_node_whose_kubelet_refuses_the_pod(pair: Pair, tmp_path: Path) -> None:
    manifest = train(None, tmp_path)
    said = explained_by_node(pair, manifest)
    assert said == {pair.large.name: "admitted", pair.small.name: "TopologyAffinityError"}
    pair.lab.kubectl("create", "-f", str(manifest))
    found = refused(pair)
    pair.seen["pod"], pair.seen["explained"] = ASKED, said
    pair.seen["default-scheduler"] = {
        "node": found["spec"]["nodeName"],
        "reason": found["status"]["reason"],
        "message": found["status"]["message"],
    }


@pytest.mark.usefixtures("busy")
def test_generated_objects_send_pod_to_the_node_that_admits_the_pod(pair: Pair, tmp_path: Path) -> None:
    apply(pair, "noderesourcetopology")
    verified = pair.ask("cluster", "verify", str(pair.fleet), "--for", "noderesourcetopology")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    manifest = train(NAME, tmp_path)
    assert explained_by_node(pair, manifest)[pair.large.name] == "admitted"
    pair.lab.kubectl("create", "-f", str(manifest))
    pair.lab.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/train", WITHIN)
    found = pair.pod("train")
    assert found["spec"]["nodeName"] == pair.large.name
    [placement] = placements_of(pair.large, [found["metadata"]["uid"]])
    [numa_node] = {numa_node_of(pair.large, gpu) for gpu in placement.gpus}
    assert placement.cpus < {*pair.large.machine.cpus_of(numa_node)}
    pair.seen["nodes"] = zones(pair)
    pair.seen[NAME] = {
        "node": pair.large.name,
        "numa_node": numa_node,
        "cpus": format_cpulist(placement.cpus),
        "gpus": sorted(placement.gpus),
    }


def numa_node_of(node: Node, address: str) -> int:
    return int(node.run(f"cat /sys/bus/pci/devices/{address}/numa_node"))


def zones(pair: Pair) -> dict[str, list[dict[str, str]]]:
    """Return what the second scheduler reads of each node's zones: CPUs and GPUs."""
    return {
        each["metadata"]["name"]: [
            {res["name"]: res["available"] for res in zone["resources"] if res["name"] in ("cpu", GPU)}
            for zone in each["zones"]
        ]
        for each in pair.lab.get(TOPOLOGIES)["items"]
    }


def gang(pair: Pair) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the PodGroup and the Job of the example, with an image that the lab has."""
    group, job = yaml.safe_load_all((pair.written / "coscheduling/example.yaml").read_text())
    assert job["spec"]["template"]["spec"]["schedulerName"] == NAME
    make_runnable(job)
    return group, job


def placed_on(pair: Pair, group: str) -> list[str]:
    """Return the nodes of those pods of a gang that have one."""
    return sorted(pod["spec"]["nodeName"] for pod in members(pair, group) if pod["spec"].get("nodeName"))


def refusals(pair: Pair, group: str) -> list[str]:
    """Return what the scheduler says of those pods of a gang that it has tried and not placed."""
    return [
        each["message"]
        for pod in members(pair, group)
        for each in pod["status"].get("conditions") or ()
        if (each["type"], each["status"]) == ("PodScheduled", "False")
    ]


def members(pair: Pair, group: str) -> list[dict[str, Any]]:
    return list(pair.lab.get("pods", f"--selector={GROUP_LABEL}={group}")["items"])


@pytest.mark.usefixtures("busy")
def test_gang_starts_whole_or_not_at_all(pair: Pair) -> None:
    group, job = gang(pair)
    name = group["metadata"]["name"]
    assert group["spec"]["minMember"] == 2
    pair.lab.kubectl("cordon", pair.small.name)
    try:
        pair.create(group)
        pair.create(job)
        wait_until(lambda: len(refusals(pair, name)) == 2, "two pods are not refused", PATIENCE_S)
        placed = len(placed_on(pair, name))
    finally:
        pair.lab.kubectl("uncordon", pair.small.name)
    assert placed == 0
    selector = f"--selector={GROUP_LABEL}={name}"
    pair.lab.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pods", selector, WITHIN)
    then = placed_on(pair, name)
    assert then == [node.name for node in pair.lab.nodes]
    pair.seen["gang"] = {"members": 2, "placed while a node is cordoned": placed, "then": then}


@pytest.mark.usefixtures("busy")
def test_gang_is_retried_when_a_pod_ends(pair: Pair) -> None:
    group, job = gang(pair)
    name = group["metadata"]["name"]
    fill(pair, pair.small, "full", FULL)
    pair.create(group)
    pair.create(job)
    wait_until(lambda: len(refusals(pair, name)) == 2, "two pods are not refused", PATIENCE_S)
    pair.lab.kubectl("delete", "pod/full", "--wait", WITHIN)
    wait_until(lambda: len(placed_on(pair, name)) == 2, "the gang is not placed", UNTRIED_S)
