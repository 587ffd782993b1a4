"""Kubelet configurations, and seeded random sequences of pods to admit and remove under them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.refusal import KubeletHangError

GPU = "nvidia.com/gpu"
HUGEPAGES = "hugepages-2Mi"
PODS_PER_SEQUENCE = 20
EVICTION_MIB, SYSTEM_MIB, KUBE_MIB = 100, 100, 200
NUMA_NODES = 4
ALPHA = ("align-by-socket", "distribute-cpus-across-cores")
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
ONE_CORE_PER_NUMA_NODE = "0-1,4-5,8-9,12-13"


@dataclass(frozen=True)
class Scenario:
    """One kubelet configuration; `reserved` None lets the policy choose its reserved CPUs itself."""

    policy: str
    scope: str = "container"
    cpu_options: tuple[str, ...] | None = ()
    """None: cpuManagerPolicy none."""
    reserved: str | None = ONE_CORE_PER_NUMA_NODE
    memory: bool = True
    topology_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        cpus = ("cpus-none",) if self.cpu_options is None else self.cpu_options
        memory = () if self.memory else ("memory-none",)
        return "-".join([self.policy, self.scope, *cpus, *self.topology_options, *memory])

    def config(self, number: int) -> dict[str, Any]:
        """Return the settings, with a reservation of memory of its own for each `number`."""
        kube_mib = KUBE_MIB + 4 * number
        first, other = divmod(kube_mib + SYSTEM_MIB + EVICTION_MIB, NUMA_NODES)
        shares = [first + other, *[first] * (NUMA_NODES - 1)]
        settings: dict[str, Any] = {
            "cpuManagerPolicy": "none" if self.cpu_options is None else "static",
            "topologyManagerPolicy": self.policy,
            "topologyManagerScope": self.scope,
            "topologyManagerPolicyOptions": dict(self.topology_options),
            "kubeReserved": {"memory": f"{kube_mib}Mi"},
            "systemReserved": {"memory": f"{SYSTEM_MIB}Mi"},
            "evictionHard": {"memory.available": f"{EVICTION_MIB}Mi"},
        }
        if self.cpu_options:
            settings["cpuManagerPolicyOptions"] = dict.fromkeys(self.cpu_options, "true")
        if set(self.cpu_options or ()) & set(ALPHA):
            settings["featureGates"] = {"CPUManagerPolicyAlphaOptions": True}
        if self.reserved is None:
            settings["kubeReserved"]["cpu"] = "1500m"
        else:
            settings["reservedSystemCPUs"] = self.reserved
        if self.memory:
            settings["memoryManagerPolicy"] = "Static"
            settings["reservedMemory"] = [
                {"numaNode": node, "limits": {"memory": f"{size}Mi"}} for node, size in enumerate(shares)
            ]
        return settings


SCENARIOS = (
    Scenario("none", reserved="0,8"),
    Scenario("best-effort", cpu_options=("full-pcpus-only", "distribute-cpus-across-numa"), memory=False),
    Scenario("best-effort", "pod", cpu_options=("align-by-socket",), reserved="0,8"),
    Scenario("best-effort", topology_options={"prefer-closest-numa-nodes": "true"}, reserved=None),
    Scenario("restricted", cpu_options=("full-pcpus-only",)),
    Scenario("restricted", cpu_options=("distribute-cpus-across-cores",), reserved="0,8", memory=False),
    Scenario("restricted", "pod", cpu_options=("strict-cpu-reservation", "prefer-align-cpus-by-uncorecache")),
    Scenario(
        "restricted",
        "pod",
        cpu_options=("distribute-cpus-across-numa", "strict-cpu-reservation"),
        reserved="0-1,8",
        topology_options={"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "8"},
    ),
    Scenario("restricted", cpu_options=None, memory=False),
    Scenario("single-numa-node", cpu_options=("full-pcpus-only", "strict-cpu-reservation"), reserved="0-1"),
    Scenario("single-numa-node", "pod", reserved="0,8", topology_options={"max-allowable-numa-nodes": "8"}),
)


def sequence(random: Random, node: Node, count: int = PODS_PER_SEQUENCE) -> list[dict[str, Any]]:
    """Return `count` pods to admit, with removals between them, as documents of `numaforge admit`.

    `node` is used up: it says which pods are there to be removed, and which ones would send the kubelet into
    a loop without end.
    """
    operations: list[dict[str, Any]] = []
    number = 0
    while number < count:
        for name in random.sample(node.pods, k=min(len(node.pods), random.choice((0, 1, 2, 4)))):
            node.remove(name)
            operations.append({"remove": name})
        for _ in range(min(count - number, random.randint(2, 6))):
            operations.append(_survivable_pod(random, node, f"p{number}"))
            number += 1
    return operations


def _survivable_pod(random: Random, node: Node, name: str) -> dict[str, Any]:
    while True:
        pod = random_pod(random, name)
        try:
            node.admit(pod)
        except KubeletHangError:
            continue
        return pod


def random_pod(random: Random, name: str) -> dict[str, Any]:
    """Return a pod of one to three app containers, now and then with an init container or a sidecar."""
    qos = random.choices((GUARANTEED, BURSTABLE, BEST_EFFORT), (75, 18, 7))[0]
    containers = [_container(random, f"c{i}", qos) for i in range(random.choices((1, 2, 3), (60, 30, 10))[0])]
    before = []
    for kind in random.choices(((), ("i",), ("s",), ("s", "i"), ("i", "s")), (60, 17, 13, 5, 5))[0]:
        container = _container(random, f"{kind}0", qos)
        before.append(container | ({"restartPolicy": "Always"} if kind == "s" else {}))
    _share_gpus(random, before, containers)
    spec: dict[str, Any] = {"containers": containers}
    if before:
        spec["initContainers"] = before
    return {"metadata": {"name": name}, "spec": spec}


def _container(random: Random, name: str, qos: str) -> dict[str, Any]:
    cpu = random.choices(("500m", "1", "2", "3", "4", "5", "6", "9"), (12, 22, 30, 12, 12, 4, 6, 2))[0]
    memory = random.choices(("64Mi", "300Mi", "700Mi", "1300Mi", "1900Mi", "3Gi"), (30, 30, 20, 12, 5, 3))[0]
    whole = {"cpu": cpu, "memory": memory}
    if qos != BEST_EFFORT and random.random() < 0.2:
        whole[HUGEPAGES] = random.choice(("2Mi", "10Mi", "32Mi", "80Mi"))
    resources: dict[str, Any] = {"limits": whole}
    if qos == BEST_EFFORT:
        resources = {}
    elif qos == BURSTABLE:
        part = random.choice(({"cpu": "250m"}, {"memory": "32Mi"}))
        resources = random.choice(({"limits": whole, "requests": part}, {"requests": part}))
    return {"name": name, "resources": resources}


def _share_gpus(random: Random, before: list[dict[str, Any]], containers: list[dict[str, Any]]) -> None:
    """Give some containers GPUs, none of them fewer than an init container before it has, except for none.

    A container that takes only part of an init container's devices gets some of them in no order.
    """
    fewest = 1
    for container in [*before, *containers]:
        if random.random() < 0.3:
            count = max(fewest, random.choices((1, 2, 3, 5), (50, 30, 12, 8))[0])
            container["resources"].setdefault("limits", {})[GPU] = str(count)
            if container in before:
                fewest = count
