"""Who manages the GPUs' memory, changed on a virtual node with the 34 NUMA nodes of a GB200 tray.

The node's memory, its kubelet and its boots are real. For the driver there is lab/rootfs/usr/lib/lab/tray,
which onlines the memory of GPUs, or leaves it offline, at each boot.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import requirements
from lab.cluster import Lab
from lab.machines import TRAY
from lab.node import Node
from numaforge.lib.quantity import parse_bytes
from tests.lab import rollouts
from tests.lab.rollouts import HEALTHY, QUICK, applied, free, inventory
from tests.lab.transactions import CONFIG, CPU_STATE, MEMORY_STATE, boots, ready

pytestmark = [pytest.mark.long, pytest.mark.vm]

BY_HAND = """cpuManagerPolicy: static
reservedSystemCPUs: "0"
memoryManagerPolicy: Static
reservedMemory:
- numaNode: 0
  limits: {memory: 100Mi}
"""
"""Such a kubelet keeps how much memory each NUMA node has, and does not start where that is not so."""
PROFILE: dict[str, Any] = {
    **rollouts.PROFILE,
    "maintenance": {"reboot": "allowed"},
    "kubelet": {
        "memory_manager_policy": "None",
        "topology_manager_policy": "best-effort",
        "on_conflict": "override",
    },
}
GPU_BYTES = len(TRAY.gpu_memory_nodes) * TRAY.gpu_memory_mib * 2**20
A_BOOT_BYTES = 16 * 2**20
"""How much the memory of two boots may differ: the kernel lies elsewhere in each."""
MODPROBE = "/etc/modprobe.d/90-numaforge.conf"
PARAMS = "/proc/driver/nvidia/params"


@pytest.fixture(scope="module")
def tray_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    requirements.ensure()
    lab = Lab(tmp_path_factory.mktemp("tray"), first=TRAY)
    lab.up(1, boot=True)
    yield lab
    lab.down()


@pytest.fixture
def tray(tray_lab: Lab) -> Node:
    """The tray with its GPUs' memory in the kernel, and a kubelet set by hand that has kept all of it."""
    tray_lab.reset()
    node = tray_lab.nodes[0]
    node.run(HEALTHY)
    node.run(f"cat >> {CONFIG}", input_text=BY_HAND)
    node.run(f"systemctl stop kubelet; rm {CPU_STATE} {MEMORY_STATE}; systemctl start kubelet; {HEALTHY}")
    ready(tray_lab, node)
    return node


def to(mode: str) -> dict[str, Any]:
    return {**PROFILE, "gpu_memory": mode}


def capacity(lab: Lab, node: Node) -> int:
    return parse_bytes(lab.get("node", node.name)["status"]["capacity"]["memory"])


def has(lab: Lab, node: Node, total: int) -> bool:
    """Whether the cluster has a node with so much memory, once its kubelet of this boot has said it."""
    ready(lab, node)
    return abs(capacity(lab, node) - total) < A_BOOT_BYTES


def held_by_gpus(node: Node) -> dict[int, int]:
    """Return the bytes that the kernel has on each NUMA node of a GPU."""
    script = "awk '$3 == \"MemTotal:\" { print $2, $4 }' /sys/devices/system/node/node*/meminfo"
    told = {int(numa_node): int(kib) for numa_node, kib in map(str.split, node.run(script).splitlines())}
    return {numa_node: told[numa_node] * 1024 for numa_node in TRAY.gpu_nodes}


def memory_policy(node: Node) -> str:
    return str(json.loads(node.run(f"cat {MEMORY_STATE}"))["policyName"])


def kept_memory(node: Node) -> int:
    """Return what the kubelet's memory manager has kept of all NUMA nodes, huge pages left out."""
    states = json.loads(node.run(f"cat {MEMORY_STATE}"))["machineState"]
    assert len(states) == 34
    return sum(state["memoryMap"]["memory"]["total"] for state in states.values())


BEFORE = dict.fromkeys(TRAY.gpu_memory_nodes, TRAY.gpu_memory_mib * 2**20)


def assert_as_it_was(lab: Lab, node: Node, total: int) -> None:
    assert has(lab, node, total)
    assert {numa_node: held for numa_node, held in held_by_gpus(node).items() if held} == BEFORE
    assert (kept_memory(node), memory_policy(node)) == (capacity(lab, node), "Static")
    assert node.try_run(f"ls {MODPROBE}").returncode != 0
    assert (applied(node), free(lab, node)) == (0, True)


def test_gpu_memory_moves_to_the_driver_and_back(tray_lab: Lab, tray: Node, tmp_path: Path) -> None:
    total = capacity(tray_lab, tray)
    assert kept_memory(tray) == total
    rollouts.kubectl(tray_lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(tray_lab, "web")
    file = inventory(tray_lab, tmp_path, profile=to("driver"), **QUICK)
    run = rollouts.begin("run", file, state=tmp_path, deploy="deploys/site.py")
    assert run.end() == 0, (run.events, run.errors())
    assert boots(tray) == 1
    assert rollouts.phases(tmp_path, tray).count("drained") == 1
    assert 'CoherentGPUMemoryMode: "driver"' in tray.run(f"cat {PARAMS}")
    assert not any(held_by_gpus(tray).values())
    assert has(tray_lab, tray, total - GPU_BYTES)
    assert (memory_policy(tray), applied(tray), free(tray_lab, tray)) == ("None", 1, True)
    rollouts.await_deployment(tray_lab, "web")

    back = inventory(tray_lab, tmp_path, profile=to("numa"), **QUICK)
    run = rollouts.begin("run", back, state=tmp_path, deploy="deploys/site.py")
    assert run.end() == 0, (run.events, run.errors())
    assert boots(tray) == 2
    assert has(tray_lab, tray, total)
    assert (applied(tray), free(tray_lab, tray)) == (2, True)


def test_aborted_rollout_restores_the_memory(tray_lab: Lab, tray: Node, tmp_path: Path) -> None:
    total = capacity(tray_lab, tray)
    file = inventory(tray_lab, tmp_path, profile=to("driver"), **{**QUICK, "settle_seconds": 600})
    run = rollouts.begin("run", file, state=tmp_path, deploy="deploys/site.py")
    run.await_phase("proves")
    assert has(tray_lab, tray, total - GPU_BYTES)
    aborted = rollouts.begin("abort", file, state=tmp_path, deploy="deploys/site.py")
    assert (aborted.end(), run.end()) == (0, 3), (aborted.errors(), run.events)
    assert boots(tray) == 2
    assert_as_it_was(tray_lab, tray, total)
