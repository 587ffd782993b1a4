"""Random sequences of pods on random machines, under configurations with which the kubelet starts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from typing import Any

from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import CPU, MEMORY, Pod, pod_limits
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.versions import KubeletVersion
from tests.oracle.case import API, Case
from tests.oracle.machines import described, random_shape, topology
from tests.oracle.starts import MIB, resource_settings

PODS = 14
"""Pods that are admitted in one sequence."""
_RESTARTS = 0.08
_OF_PODS = 0.1
_MOST_COMBINATIONS = 2**16
"""More take the kubelet seconds; see numaforge.kubelet.admission.hint_work."""
_PLUGINS = ("nvidia.com/gpu", "rdma/hca", "example.com/unplaced")
_FIRST_MINOR_OF_POD_LEVEL_RESOURCES = 32  # a pod's own resources; older kubelets do not know the field
_CAN_HANG = "distribute-cpus-across-numa"  # a request that never ends is found by the pods that are there
_GUARANTEED, _BURSTABLE, _BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"

Inventory = Mapping[str, Sequence[Sequence[int] | None]]
"""By resource, the NUMA nodes of each device; None for one without topology."""


def sequence(random: Random, version: str, *, restarts: bool) -> Case:
    """Return a configuration, a machine with devices, and `PODS` pods to admit with removals between them.

    With `restarts` the kubelet sometimes starts again between two pods.
    """
    minor = KubeletVersion.parse(version).minor
    while True:
        shape = random_shape(random)
        machine = described(shape)
        case = Case({**API, **resource_settings(random, machine, faults=False)}, machine=shape)
        inventory = _inventory(random, machine)
        report = check(case.text, topology=topology(machine), version=version)
        if report.starts and _combinations(case.settings, machine, inventory) <= _MOST_COMBINATIONS:
            break
    node = Node(topology(machine), report.effective, inventory, predicates=False, version=version)
    pods = _Pods(
        random,
        machine,
        inventory,
        pod_level=minor >= _FIRST_MINOR_OF_POD_LEVEL_RESOURCES,
        restarts=restarts and _CAN_HANG not in case.settings.get("cpuManagerPolicyOptions", {}),
    )
    return replace(case, devices=_plugged(inventory), operations=tuple(pods.operations(node)))


def _combinations(settings: Mapping[str, Any], machine: Mapping[str, Any], inventory: Inventory) -> int:
    """Return about how many combinations of hints the kubelet merges for a container with everything."""
    if settings["topologyManagerPolicy"] == "none":
        return 1
    managers = (settings["cpuManagerPolicy"] == "static") + (settings.get("memoryManagerPolicy") == "Static")
    plugins = sum(listed != [None] * len(listed) for listed in inventory.values())
    return 2 ** (len(machine["numa"]) * (managers + plugins))


def _inventory(random: Random, machine: Mapping[str, Any]) -> Inventory:
    near = [node["id"] for node in machine["numa"] if node["cores"]]
    inventory: dict[str, list[list[int] | None]] = {}
    if random.random() < 0.7:
        per_node = max(1, 8 // len(near))
        inventory[_PLUGINS[0]] = [[node] for node in near for _ in range(random.choice((1, per_node)))]
    if random.random() < 0.3:
        inventory[_PLUGINS[1]] = [[node] for node in near[:: random.choice((1, 2))]]
    if random.random() < 0.15:
        inventory[_PLUGINS[2]] = [None] * random.randint(1, 4)
    return inventory


def _plugged(inventory: Inventory) -> dict[str, list[dict[str, Any]]]:
    return {
        resource: [{"id": str(i), "numa_nodes": nodes, "healthy": True} for i, nodes in enumerate(listed)]
        for resource, listed in inventory.items()
    }


@dataclass(frozen=True)
class _Pods:
    random: Random
    machine: Mapping[str, Any]
    inventory: Inventory
    pod_level: bool
    restarts: bool

    def operations(self, node: Node) -> Iterator[dict[str, Any]]:
        """Yield pods, removals and restarts.

        `node` says which pods are there, and which requests have no answer.
        """
        for number in range(PODS):
            if self.restarts and self.random.random() < _RESTARTS:
                yield {"restart": True}
            leaving = self.random.choice((0, 0, 0, 0, 1, 2))
            for name in self.random.sample(node.pods, k=min(len(node.pods), leaving)):
                node.remove(name)
                yield {"remove": name}
            yield self._answered(node, f"p{number}")

    def _answered(self, node: Node, name: str) -> dict[str, Any]:
        while True:
            spec = self._spec()
            try:
                node.admit(spec, name)
            except KubeletHangError:
                continue
            return {"name": name, "spec": spec}

    def _spec(self) -> dict[str, Any]:
        random = self.random
        qos = random.choices((_GUARANTEED, _BURSTABLE, _BEST_EFFORT), (75, 18, 7))[0]
        count = random.choices((1, 2, 3), (60, 30, 10))[0]
        containers = [self._container(f"c{number}", qos) for number in range(count)]
        before = []
        for kind in random.choices(((), ("i",), ("s",), ("s", "i"), ("i", "s")), (60, 17, 13, 5, 5))[0]:
            container = self._container(f"{kind}0", qos)
            before.append(container | ({"restartPolicy": "Always"} if kind == "s" else {}))
        self._share_devices(before, containers)
        spec = {"containers": containers} | ({"initContainers": before} if before else {})
        return spec | (self._of_pod(spec) if self.pod_level and random.random() < _OF_PODS else {})

    def _of_pod(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return resources of the whole pod: no less than those of its containers."""
        taken = pod_limits(Pod.from_manifest(spec, "p"))
        cpu, mib = ceil(taken.get(CPU, 0)) + 2, ceil(taken.get(MEMORY, 0) / MIB) + 64
        wanted = {"cpu": str(cpu), "memory": f"{mib}Mi"}
        kind = self.random.choice(("limits", "limits", "requests"))
        return {"resources": {kind: wanted}}

    def _container(self, name: str, qos: str) -> dict[str, Any]:
        random = self.random
        cpus = [len(core["threads"]) for node in self.machine["numa"] for core in node["cores"]]
        near = max(1, sum(cpus) // sum(1 for node in self.machine["numa"] if node["cores"]))
        cpu = random.choices(
            ("500m", 1, 2, 3, 4, max(1, near // 2), max(1, near - 2), near, near + 2),
            (10, 14, 26, 8, 16, 12, 6, 4, 4),
        )[0]
        mib = self.machine["numa"][0]["memory"] // MIB
        memory = random.choices(
            (64, mib // 20, mib // 4, mib // 2, mib - 1000, mib + 64), (33, 26, 18, 9, 6, 8)
        )[0]
        whole = {"cpu": str(cpu), "memory": f"{max(16, memory)}Mi"}
        if qos != _BEST_EFFORT and random.random() < 0.15:
            whole[random.choice(("hugepages-2Mi", "hugepages-1Gi"))] = random.choice(("1Gi", "2Gi"))
        if qos == _BEST_EFFORT:
            return {"name": name, "resources": {}}
        if qos == _BURSTABLE:
            part = random.choice(({"cpu": "250m"}, {"memory": "16Mi"}))
            return {
                "name": name,
                "resources": random.choice(({"limits": whole, "requests": part}, {"requests": part})),
            }
        return {"name": name, "resources": {"limits": whole}}

    def _share_devices(self, before: list[dict[str, Any]], containers: list[dict[str, Any]]) -> None:
        """Give some containers devices: none, or no fewer than an init container before them has.

        A container that takes only part of an init container's devices gets some of them in no order.
        """
        for resource, devices in self.inventory.items():
            fewest = 1
            for container in [*before, *containers]:
                if self.random.random() < 0.3:
                    wanted = self.random.choices((1, 2, 3, len(devices)), (50, 30, 12, 8))[0]
                    count = max(fewest, wanted)
                    container["resources"].setdefault("limits", {})[resource] = str(count)
                    if container in before:
                        fewest = count
