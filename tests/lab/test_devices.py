"""GPUs and RDMA devices of the virtual node, from the profile to pods, by one roll-out.

NVML is a fake. All else is real: soft RoCE, the shared device plugin for RDMA, kubelet, scheduler, and pods
that send.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.lib.file_content import PLAN_PATH
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.planning.document import loads
from tests.lab import gpus, rollouts, transactions
from tests.lab.rollouts import QUICK, applied, free, inventory, policy
from tests.lab.transactions import boots, ready

CONFIG = "/k8s-rdma-shared-dev-plugin/config.json"
RESOURCE = "rdma/rail0"
TOKENS = 5
PROFILE: dict[str, Any] = {
    **rollouts.PROFILE,
    "mig": {
        "gpus": [
            {"indices": [0], "devices": {"3g.40gb": 1, "1g.10gb": 3}},
            {"indices": [1], "devices": {"1g": "all"}},
        ]
    },
    "rdma": {
        "device_plugin": {"per": "rail", "hca_max": TOKENS, "software_devices": True, "deployed": True},
        "libraries": {"nccl_conf": True, "env_file": True, "ucx": True, "more_devices": ["rxe0"]},
        "host": {"modules": ["ib_umad", "rdma_ucm"], "netns": "shared", "memlock": "unlimited"},
    },
}
WITHIN_S = 240
CUT_OFFERED = {"nvidia.com/gpu": "6", "nvidia.com/mig-1g.10gb": "10", "nvidia.com/mig-3g.40gb": "1"}


def numaforge(*arguments: str) -> str:
    """Return what a command prints that has to succeed."""
    return rollouts.in_repository("numaforge", *arguments)


def pod(name: str, resources: dict[str, str]) -> dict[str, Any]:
    """Return a pod that sees all files of the host; which devices it may open is the kubelet's to say."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "hostNetwork": True,
            "containers": [
                {
                    "name": "work",
                    "image": "lab.example/busybox:1",
                    "imagePullPolicy": "Never",
                    "command": ["sleep", "100000"],
                    "resources": {"limits": {"cpu": "2", "memory": "64Mi", **resources}},
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                    "volumeMounts": [{"name": "host", "mountPath": "/host"}],
                }
            ],
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        },
    }


def run_pod(lab: Lab, name: str, resources: dict[str, str]) -> None:
    rollouts.kubectl(lab, "create", "-f", "-", manifest=pod(name, resources))
    rollouts.kubectl(lab, "wait", "--for=condition=Ready", f"--timeout={WITHIN_S}s", f"pod/{name}")


def in_pod(lab: Lab, name: str, command: str) -> str:
    """Return what a shell in a pod prints, and its exit status in the last line."""
    return rollouts.kubectl(lab, "exec", name, "--", "sh", "-c", f"{{ {command}; }} 2>&1; echo $?")


def await_offer(lab: Lab, node: Node, prefix: str, wanted: Mapping[str, str]) -> None:
    """Return when the node's Allocatable has these resources, and no others of that prefix that are not 0."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        allocatable = lab.get("node", node.name)["status"]["allocatable"]
        offered = {n: c for n, c in allocatable.items() if n.startswith(prefix) and c != "0"}
        if offered == wanted:
            return
        assert time.monotonic() < deadline, offered
        time.sleep(0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rdma")


@pytest.fixture(scope="module")
def offered(lab: Lab, folder: Path) -> Node:
    """The node with a driver for its GPUs, and RDMA's plugin with the configuration planned for it."""
    lab.reset()
    node = lab.nodes[0]
    node.run(rollouts.HEALTHY)
    gpus.install(node)
    await_offer(lab, node, "nvidia.com/", {"nvidia.com/gpu": str(node.machine.gpus)})
    snapshot = parse_output(node.run("sh -s", input_text=script()))
    (folder / "machine.json").write_text(snapshot.to_json())
    (folder / "profile.yaml").write_text(json.dumps(PROFILE))
    machine = [str(folder / "machine.json")]
    config = numaforge("rdma", "config", *machine, "--profile", str(folder / "profile.yaml"))
    (folder / "config.json").write_text(config)
    numaforge("rdma", "check", str(folder / "config.json"), "--machine", *machine)
    node.run(f"mkdir -p {Path(CONFIG).parent} && cat > {CONFIG}", input_text=config)
    node.run("systemctl start lab-rdma-shared-dev-plugin")
    await_offer(lab, node, "rdma/", {RESOURCE: str(TOKENS)})
    return node


@pytest.fixture(scope="module")
def provisioned(lab: Lab, offered: Node, folder: Path) -> Node:
    """The node after a roll-out that proved what it offers, and from which a pod had to go."""
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    file = inventory(lab, folder, profile=PROFILE, **QUICK)
    run = rollouts.begin("run", file, state=folder, deploy="deploys/site.py")
    assert run.end() == 0, (run.events, run.errors())
    assert rollouts.phases(folder, offered).count("drained") == 1
    return offered


@pytest.mark.long
def test_plugin_reads_the_planned_config_and_node_offers_its_pool(lab: Lab, offered: Node) -> None:
    said = offered.run("journalctl -u lab-rdma-shared-dev-plugin -o cat")
    assert "rail0.sock gets registered successfully at Kubelet" in said
    assert lab.get("node", offered.name)["status"]["capacity"][RESOURCE] == str(TOKENS)


@pytest.mark.long
def test_only_a_pod_that_requests_the_rail_gets_its_device(lab: Lab, offered: Node) -> None:
    talk = "ibv_rc_pingpong -d rxe0 -g 0 -n 20"  # the other side may not listen yet, or have ended
    tries = f"for _ in $(seq 100); do kill -0 $! || exit 1; {talk} 127.0.0.1 && exit; sleep 0.2; done; exit 1"
    loopback = f"chroot /host sh -c '{talk} > /dev/null & {tries}'"
    run_pod(lab, "with", {RESOURCE: "1"})
    run_pod(lab, "without", {})
    assert "/dev/infiniband/uverbs0" in in_pod(lab, "with", "ls /dev/infiniband/*")
    sent = in_pod(lab, "with", loopback)
    assert "20 iters in" in sent, sent
    assert sent.rstrip().endswith("\n0"), sent
    refused = in_pod(lab, "without", loopback)
    assert "20 iters in" not in refused, refused
    assert not refused.rstrip().endswith("\n0"), refused
    rollouts.kubectl(lab, "delete", "pod", "with", "without", "--wait=true")


@pytest.mark.long
def test_rollout_proves_the_pool_and_labels_the_node(lab: Lab, provisioned: Node) -> None:
    plan = loads(provisioned.run(f"cat {PLAN_PATH}"))
    assert plan.allocatable is not None
    assert plan.allocatable.devices[RESOURCE] == TOKENS
    assert (policy(provisioned), applied(provisioned), free(lab, provisioned)) == ("static", 1, True)
    node = lab.get("node", provisioned.name)
    assert node["status"]["allocatable"][RESOURCE] == str(TOKENS)
    assert plan.labels.items() <= node["metadata"]["labels"].items()
    assert "numaforge.io/rdma-pools" in plan.labels


@pytest.mark.long
def test_rollout_partitions_gpus_and_a_pod_runs_on_a_mig_slice(lab: Lab, provisioned: Node) -> None:
    assert gpus.cut(gpus.seen(provisioned)) == gpus.CUT
    await_offer(lab, provisioned, "nvidia.com/", CUT_OFFERED)
    run_pod(lab, "slice", {"nvidia.com/mig-3g.40gb": "1"})
    rollouts.kubectl(lab, "delete", "pod", "slice", "--wait=true")


@pytest.mark.long
def test_libraries_get_the_rail_settings(provisioned: Node) -> None:
    assert "NCCL_IB_HCA==rxe0:1" in provisioned.run("cat /etc/nccl.conf")
    told = provisioned.run("set -a; . /etc/numaforge/rails.env; printenv UCX_NET_DEVICES")
    assert told.strip() == "rxe0:1"


@pytest.mark.long
def test_runtime_processes_may_lock_memory(provisioned: Node) -> None:
    for unit in ("containerd", "kubelet"):
        assert provisioned.run(f"systemctl show {unit} -p LimitMEMLOCK --value").strip() == "infinity"
        limits = provisioned.run(f"cat /proc/$(systemctl show {unit} -p MainPID --value)/limits")
        assert "Max locked memory         unlimited            unlimited" in limits


@pytest.mark.long
def test_verification_sends_traffic_over_the_rail(lab: Lab, provisioned: Node, folder: Path) -> None:
    file = str(folder / "inventory.py")
    said = json.loads(
        numaforge("verify", "-o", "json", "--active", "loopback", "--kubeconfig", str(lab.kubeconfig), file)
    )
    (sent,) = [each for each in said["tests"] if each["name"].startswith("test_port_reaches_itself")]
    assert (sent["outcome"], "rxe0:1" in sent["name"]) == ("passed", True), sent
    assert said["failed"] == 0, said


@pytest.mark.long
def test_second_rollout_changes_nothing(lab: Lab, provisioned: Node, folder: Path) -> None:
    before = applied(provisioned)
    started = provisioned.run("systemctl show -p MainPID --value kubelet containerd")
    again = rollouts.begin("run", folder / "inventory.py", state=folder, deploy="deploys/site.py")
    assert again.end() == 0, (again.events, again.errors())
    assert applied(provisioned) == before
    assert provisioned.run("systemctl show -p MainPID --value kubelet containerd") == started


@pytest.mark.long
def test_mig_instances_lost_at_boot_are_restored_before_the_kubelet(lab: Lab, provisioned: Node) -> None:
    before = boots(provisioned)
    provisioned.try_run("sync; systemctl reboot")
    transactions.until_through_boots(provisioned, "systemctl is-active kubelet.service")
    assert boots(provisioned) == before + 1
    assert gpus.cut(gpus.seen(provisioned)) == gpus.CUT
    ready(lab, provisioned)
    await_offer(lab, provisioned, "nvidia.com/", CUT_OFFERED)
