"""Claims on the live kubelet: the CPU driver itself, and one that stands in for NVIDIA's.

An admin's way: a profile, `deploys/site.py`, what `numaforge generate cluster` writes, the drivers with the
values that it gives. What drivers publish, what the scheduler chooses and what containers get has to be what
plans and `cluster explain` foresee.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import drivers
from lab.cluster import GPU_RESOURCE, Lab
from lab.drivers import CPUS, GPUS
from lab.node import Node
from lab.waiting import wait_until
from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.file_content import PLAN_PATH
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.document import loads
from numaforge.planning.plan import NodePlan
from tests.fixtures.tables import cases
from tests.lab import rollouts
from tests.lab.cluster_command import ask
from tests.lab.running_pods import pod, uid_of_running

pytestmark = pytest.mark.long

PROFILE: dict[str, Any] = {
    **rollouts.PROFILE,
    "kubelet": {"resource_engine": "dra"},
    "dra": {"gpus": "claims"},
}
PLUGIN = "lab-deviceplugin.service"
PLUGIN_STAYS = "Allocatable has the device plugin's GPUs"
HALF = "/etc/kubernetes/kubelet.conf.d/99-half.conf"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CPU_GROUP = "cpudevnuma{:03}"
"""As the CPU driver calls those of a NUMA node."""


@dataclass(frozen=True)
class World:
    """The provisioned node, with files that an admin would have of it."""

    lab: Lab
    node: Node
    folder: Path

    @property
    def machine(self) -> NodeTopology:
        return read_topology(parse_output(self.node.run("sh -s", input_text=script())))

    @property
    def plan(self) -> NodePlan:
        return loads(self.node.run(f"cat {PLAN_PATH}"))

    @property
    def profile(self) -> Path:
        return self.folder / "profile.yaml"

    def capture(self) -> Path:
        """Write what the node shows now."""
        file = self.folder / "machine.json"
        file.write_text(parse_output(self.node.run("sh -s", input_text=script())).to_json())
        return file

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Ask numaforge about this node as its profile has it, with the login of the cluster."""
        planned = (str(self.capture()), f"--profile={self.profile}")
        return ask(self.lab.control_plane, *words, *planned)

    def deviations(self) -> list[str]:
        """Return where `cluster verify` says that slices are not as planned."""
        said = self.ask("cluster", "verify", "--for=dra")
        lines = [line for line in said.stdout.splitlines() if line.startswith("dra: ")]
        assert said.returncode == bool(lines), said
        return lines

    def explained(self, *documents: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `cluster explain` says of a pod's file on this node, and whether it fits."""
        file = self.folder / "pods.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        answer = json.loads(self.ask("cluster", "explain", str(file), "--output=json").stdout)
        [workload] = answer["workloads"]
        [verdict] = workload["nodes"]
        return {**verdict, "remedies": workload["remedies"]}

    def create(self, *documents: Mapping[str, Any]) -> None:
        text = yaml.safe_dump_all(documents)
        self.lab.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input_text=text)

    def allocated(self, name: str) -> dict[str, list[str]]:
        """Return the devices of a pod's claims, by the pod's name of each, once it runs."""
        uid = uid_of_running(self.lab, name)
        found: dict[str, list[str]] = {}
        for claim in self.lab.control_plane.get(CLAIMS)["items"]:
            if uid in [owner["uid"] for owner in claim["metadata"].get("ownerReferences") or ()]:
                own = claim["metadata"]["annotations"].get(
                    "resource.kubernetes.io/pod-claim-name", GPU_RESOURCE
                )
                results = claim["status"]["allocation"]["devices"]["results"]
                found[own] = ["/".join(each[key] for key in ("driver", "pool", "device")) for each in results]
        return found

    def in_pod(self, name: str, command: str) -> str:
        return self.lab.kubectl("exec", name, "--", "sh", "-c", command).strip()

    def refusal(self, name: str) -> str:
        """Return why the scheduler leaves a pod pending, once it does."""
        conditions: dict[str, Any] = {}

        def refused() -> bool:
            status = self.lab.control_plane.get(f"/api/v1/namespaces/default/pods/{name}")["status"]
            conditions.update({each["type"]: each for each in status.get("conditions") or ()})
            return (
                "PodScheduled" in conditions and conditions["PodScheduled"].get("reason") == "Unschedulable"
            )

        wait_until(refused, f"{name} is not refused")
        return str(conditions["PodScheduled"]["message"])


def advertised(lab: Lab, node: Node) -> str:
    """Return how many GPUs a device plugin offers on a node, as its Allocatable has it."""
    return str(lab.get("node", node.name)["status"]["allocatable"].get(GPU_RESOURCE, "0"))


@pytest.fixture(scope="module")
def world(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The node as `deploys/site.py` has made it for claims, with no device plugin."""
    lab.reset()
    node = lab.nodes[0]
    node.run(rollouts.HEALTHY)
    node.run(f"systemctl disable --now {PLUGIN}")
    wait_until(lambda: advertised(lab, node) == "0", PLUGIN_STAYS)
    world = World(lab, node, tmp_path_factory.mktemp("claims"))
    world.profile.write_text(yaml.safe_dump(PROFILE))
    run = site(world, PROFILE)
    assert run.returncode == 0, run.stdout
    yield world
    lab.reset()


def site(world: World, profile: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    data = ("kubelet_stable_seconds=3", f"numaforge_profile={json.dumps(profile)}")
    named = (part for each in data for part in ("--data", each))
    where = ("--limit", world.node.name, "inventories/lab/inventory.py", "deploys/site.py")
    return rollouts.program("pyinfra", "-y", *named, *where)


@pytest.fixture(scope="module")
def applied(world: World) -> dict[str, Any]:
    """What is generated for claims, applied to the API server: the values of the CPU driver's chart."""
    said = world.ask("generate", "cluster", "--for=dra", f"--to={world.folder / 'cluster'}")
    assert said.returncode == 0, said
    folder = world.folder / "cluster/dra"
    world.lab.kubectl("apply", "--server-side", "--validate=strict", "-k", str(folder))
    values: dict[str, Any] = yaml.safe_load((folder / "dra-driver-cpu.values.yml").read_text())
    return values


def arguments(values: Mapping[str, Any], **others: str) -> list[str]:
    """Return how the chart of 0.2.0 calls the CPU driver (templates/daemonset.yaml)."""
    said = {**values["args"], **others}
    names = {"cpuDeviceMode": "cpu-device-mode", "groupBy": "group-by", "reservedCPUs": "reserved-cpus"}
    assert said.keys() <= names.keys()
    return [f"--{names[key]}={value}" for key, value in said.items()]


@pytest.fixture(scope="module")
def cpus(world: World, applied: dict[str, Any]) -> Iterator[Callable[..., None]]:
    """The CPU driver as planned; what is returned starts it otherwise, or as planned again."""

    def start(**others: str) -> None:
        drivers.start(world.lab, world.node, CPUS, *arguments(applied, **others))

    start()
    yield start
    drivers.stop(world.lab, world.node, CPUS)


@pytest.fixture(scope="module")
def gpus(world: World) -> Iterator[None]:
    drivers.start(world.lab, world.node, GPUS)
    yield
    drivers.stop(world.lab, world.node, GPUS)


@pytest.fixture(autouse=True)
def _no_pod_stays(world: World) -> Iterator[None]:
    yield
    world.lab.kubectl("delete", "pods", "--all", "--namespace=default")
    wait_until(lambda: not world.lab.control_plane.get(CLAIMS)["items"], "there are claims")


def template(name: str, *requests: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def some_cpus(count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": str(count)}}}
    return {"name": "cpus", "exactly": exactly}


def claiming(name: str, claims: str, **resources: str) -> dict[str, Any]:
    """Return a pod that runs, with the claims of a template and what it asks for beside them."""
    found: dict[str, Any] = pod(name, {"cpu": "1", "memory": "32Mi", **resources})
    found["metadata"]["namespace"] = "default"
    found["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": claims}]
    found["spec"]["containers"][0]["resources"]["claims"] = [{"name": "own"}]
    return found


def with_cpus(name: str, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return template(name, some_cpus(count)), claiming(name, name, cpu=str(count))


def cpus_of(world: World, name: str) -> frozenset[int]:
    """Return the CPUs of a pod's container: by its cgroup, and as its processes see them."""
    cgroup = parse_cpulist(world.in_pod(name, "cat /sys/fs/cgroup/cpuset.cpus.effective"))
    own = world.in_pod(name, "grep Cpus_allowed_list /proc/self/status").split()[-1]
    assert parse_cpulist(own) == cgroup
    return cgroup


@pytest.mark.usefixtures("cpus", "gpus")
def test_drivers_publish_the_devices_that_plans_predict(world):
    assert world.deviations() == []


@cases(
    "told, message",
    {
        "another-grouping": ({"groupBy": "socket"}, "is missing, and planned one of 0-3"),
        "other-reserved-CPUs": ({"reservedCPUs": "0"}, "without the reserved"),
    },
)
def test_driver_with_deviating_settings_is_named(world, cpus, told, message):
    cpus(**told)
    try:
        lines = world.deviations()
        assert any(message in line and "written by dracpu" in line for line in lines), lines
    finally:
        cpus()


@pytest.mark.usefixtures("cpus")
def test_pod_with_claim_gets_the_predicted_cpus_of_one_numa_node(world):
    reserved = world.plan.cpus.reserved
    for number in range(2):
        claim, own = with_cpus(f"pinned-{number}", 2)
        said = world.explained(claim, own)
        assert said["fits"], said
        world.create(claim, own)
        [device] = world.allocated(f"pinned-{number}")["own"]
        assert said["devices"] == {"own": [device]}
        got = cpus_of(world, f"pinned-{number}")
        assert len(got) == 2
        assert not got & reserved
        [place] = [
            each.id
            for each in world.machine.numa_nodes
            if device == f"dra.cpu/{world.node.name}/{CPU_GROUP.format(each.id)}"
        ]
        assert got <= world.machine.numa_nodes[place].cpus
    world.create(pod("shared", {"cpu": "500m", "memory": "32Mi"}))
    uid_of_running(world.lab, "shared")
    pinned = cpus_of(world, "pinned-0") | cpus_of(world, "pinned-1")
    assert cpus_of(world, "shared") == world.machine.online - reserved - pinned


@pytest.mark.usefixtures("cpus")
def test_pod_with_unservable_claim_waits_with_a_reason(world):
    driver = world.plan.dra.cpus if world.plan.dra else None
    assert driver is not None
    reserved = parse_cpulist(driver.reserved_cpus)
    most = max(len(each.cpus - reserved) for each in world.machine.numa_nodes)
    claim, own = with_cpus("wide", most + 1)
    said = world.explained(claim, own)
    world.create(claim, own)
    assert world.refusal("wide").startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    assert (said["scheduler"]["reasons"], said["devices"]) == (["cannot allocate all claims"], {})
    [count] = said["claims"]
    asked = {"dra.cpu/cpu": str(most + 1)}
    assert (count["match"], count["free"], count["capacity"]) == (len(world.machine.numa_nodes), 0, asked)
    less = f"{most} instead of {most + 1} dra.cpu/cpu of each device in the request cpus of its claim own"
    assert less in [each["change"] for each in said["remedies"]]
    live = " ".join(world.ask("cluster", "explain", "default/wide").stdout.split())
    assert f"asks for 1 of dra.cpu with {most + 1} dra.cpu/cpu each; 4 match, 0 of them" in live, live
    world.create(*with_cpus("narrow", most))
    uid_of_running(world.lab, "narrow")
    assert len(cpus_of(world, "narrow")) == most


@pytest.mark.usefixtures("cpus", "gpus")
def test_gpu_and_cpus_do_not_match_on_a_missing_numa_attribute(world):
    bound = template("both", {"name": "gpu", "exactly": {"deviceClassName": GPUS.name}}, some_cpus(1))
    same = {"requests": ["gpu", "cpus"], "matchAttribute": "resource.kubernetes.io/numaNode"}
    bound["spec"]["spec"]["devices"]["constraints"] = [same]
    own = claiming("both", "both")
    said = world.explained(bound, own)
    assert said["scheduler"]["reasons"] == ["cannot allocate all claims"]
    change = "without the constraint on resource.kubernetes.io/numaNode in its claim own"
    assert change in [each["change"] for each in said["remedies"]]
    world.create(bound, own)
    assert "1 cannot allocate all claims." in world.refusal("both")


def visible(world: World, name: str) -> list[str]:
    """Return the PCI addresses of the GPUs that a pod's container sees."""
    return world.in_pod(name, "echo $NVIDIA_VISIBLE_DEVICES").split(",")


def addresses(world: World, devices: list[str]) -> list[str]:
    """Return the PCI addresses of GPUs that are called as in slices."""
    offered = {
        device["name"]: device["attributes"]["resource.kubernetes.io/pciBusID"]["string"]
        for each in drivers.published(world.lab, world.node, GPUS)
        for device in each["spec"]["devices"]
    }
    return [offered[each.rpartition("/")[2]] for each in devices]


@pytest.mark.usefixtures("applied", "gpus")
@pytest.mark.parametrize("count", [1, 2])
def test_pod_with_generated_claim_gets_the_predicted_gpus(world, count):
    name = f"train-{count}"
    own = claiming(name, f"numaforge-nvidia-gpu-{count}")
    said = world.explained(own)
    assert said["fits"], said
    world.create(own)
    got = world.allocated(name)
    assert got == said["devices"]
    assert len(got["own"]) == count
    assert visible(world, name) == addresses(world, got["own"])
    places = {each.pci_address: each.numa_node for each in world.machine.gpus}
    assert len({places[each] for each in visible(world, name)}) == 1


@pytest.mark.usefixtures("gpus")
def test_gpu_request_is_served_by_a_claim_without_a_device_plugin(world):
    assert advertised(world.lab, world.node) == "0"
    for number in range(2):
        own = pod(f"plain-{number}", {"cpu": "1", "memory": "32Mi", GPU_RESOURCE: "3"})
        said = world.explained(own)
        assert said["fits"], said
        world.create(own)
        got = world.allocated(f"plain-{number}")
        assert got == {GPU_RESOURCE: said["devices"]["extended resources"]}
        assert visible(world, f"plain-{number}") == addresses(world, got[GPU_RESOURCE])
    third = pod("plain-2", {"cpu": "1", "memory": "32Mi", GPU_RESOURCE: "3"})
    said = world.explained(third)
    world.create(third)
    assert world.refusal("plain-2").startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    assert said["scheduler"]["reasons"] == ["cannot allocate all claims"]
    assert said["claims"][0]["free"] == len(world.machine.gpus) - 6
    assert next(each["change"] for each in said["remedies"]) == f"2 {GPU_RESOURCE} in the container work"


def test_device_plugin_beside_the_dra_driver_fails_verification(world):
    file = rollouts.inventory(world.lab, world.folder / "hosts", profile=PROFILE)
    kept = held(world, file)
    assert kept.returncode == 0, kept.stdout
    world.node.run(f"systemctl start {PLUGIN}")
    try:
        offered = str(len(world.machine.gpus))
        wait_until(lambda: advertised(world.lab, world.node) == offered, "the device plugin offers no GPUs")
        broken = held(world, file)
        assert broken.returncode == 1, broken.stdout
        assert "hands out by claims, too: remove it" in " ".join(broken.stdout.split())
    finally:
        world.node.run(f"systemctl stop {PLUGIN}")
        wait_until(lambda: advertised(world.lab, world.node) == "0", PLUGIN_STAYS)


def held(world: World, inventory: Path) -> subprocess.CompletedProcess[str]:
    """Hold the node to what it promises of claims."""
    login = f"--kubeconfig={world.lab.kubeconfig}"
    return rollouts.program("numaforge", "verify", login, str(inventory), "--", "-k", "no_device_plugin")


@pytest.mark.usefixtures("cpus")
def test_static_cpus_are_refused_beside_the_cpu_driver(world):
    static = {**rollouts.PROFILE, "kubelet": {"resource_engine": "kubelet"}}
    run = site(world, static)
    assert run.returncode == 1, run.stdout
    assert "the CPU driver dra.cpu has registered" in " ".join(run.stdout.split())
    assert rollouts.policy(world.node) == "none"


@pytest.fixture
def half(world: World) -> Iterator[None]:
    """The kubelet's static policy, by a file of the admin's, beside what is planned."""

    def restarted(policy: str) -> None:
        world.node.run(f"systemctl stop kubelet; rm -f {rollouts.CPU_STATE}; systemctl start kubelet")
        world.node.run(rollouts.HEALTHY)
        state = f"cat {rollouts.CPU_STATE}"
        wait_until(lambda: f'"policyName":"{policy}"' in world.node.try_run(state).stdout, f"is not {policy}")

    header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    world.node.run(f"cat >{HALF}", input_text=json.dumps({**header, "cpuManagerPolicy": "static"}))
    restarted("static")
    yield
    world.node.run(f"rm {HALF}")
    restarted("none")


@pytest.mark.usefixtures("cpus", "half")
def test_static_cpus_beside_the_cpu_driver_are_reported_and_pin_nothing(world):
    found = rollouts.program("numaforge", "audit", "--only", "host", str(world.capture()))
    assert found.returncode == 1, found.stdout
    assert "error NH401  the CPU driver and the static CPU manager hand out the same CPUs" in found.stdout
    world.create(pod("exclusive", {"cpu": "2", "memory": "32Mi"}))
    uid = uid_of_running(world.lab, "exclusive")
    state = json.loads(world.node.run(f"cat {rollouts.CPU_STATE}"))
    assert parse_cpulist(state["entries"][uid]["work"]) < cpus_of(world, "exclusive")
