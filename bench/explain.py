"""Measure what a fleet of 300 nodes costs: `fit --shapes`, and `cluster explain` with 40 pods on each.

CPU time of one core. The nodes are of three kinds: DGX H100, EPYC with 8 NUMA nodes, HGX B200 with 6. Exits
with 1 beyond the limits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from numaforge.cluster.explain.candidates import GivenMachine, candidates
from numaforge.cluster.explain.cluster import read_cluster
from numaforge.cluster.explain.explanation import explain
from numaforge.cluster.explain.workload import workloads_of
from numaforge.commands.as_planned import AsPlanned
from numaforge.kubelet.admission.fit import Scenario
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.shapes import Load, NodeKind, Shape, best_settings
from numaforge.machine.topology.saved import ready_machine

KINDS = {"dgx-h100": 150, "epyc-nps4": 100, "hgx-b200": 50}
ON_EACH = 40
GPU = "nvidia.com/gpu"
FLEET: tuple[tuple[int, int, int, int], ...] = (
    (60, 160, 1500, 8),
    (200, 48, 400, 4),
    (150, 30, 200, 2),
    (400, 12, 100, 1),
    (300, 48, 100, 0),
    (600, 16, 32, 0),
    (2000, 2, 4, 0),
    (1500, 1, 1, 0),
)
"""Pods, and of each the CPUs, GiB and GPUs."""
LIMIT_SHAPES_SECONDS, LIMIT_PODS_SECONDS = 30.0, 30.0


def scenario(name: str) -> Scenario:
    node = AsPlanned("training").node(ready_machine(name), "1.36.3", {})
    return Scenario(node.machine, node.kubelet.effective, node.devices, None, "1.36.3")


def spec(cpus: int, gib: int, gpus: int) -> dict[str, Any]:
    limits = {"cpu": str(cpus), "memory": f"{gib}Gi"} | ({GPU: str(gpus)} if gpus else {})
    return {"containers": [{"name": "main", "resources": {"limits": limits}}]}


def cpu_seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def cluster(scenarios: dict[str, Scenario]) -> tuple[list[dict[str, Any]], list[GivenMachine]]:
    """Return Nodes with pods of their own, and their machines; of a kind, every third runs the same."""
    documents: list[dict[str, Any]] = []
    machines = []
    for kind, count in KINDS.items():
        offered = scenarios[kind].node().allocatable
        allocatable = {"cpu": f"{offered.cpu_milli}m", "memory": str(offered.memory_bytes), "pods": "110"}
        allocatable |= {name: str(amount) for name, amount in offered.scalars.items()}
        for number in range(count):
            name = f"{kind}-{number}"
            machines.append(GivenMachine(name, scenarios[kind]))
            documents.append(
                {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}
            )
            dice = Random(f"{kind}/{number // 3}")  # noqa: S311 a reproducible load, not a secret
            for each in range(ON_EACH):
                asked = spec(dice.choice((1, 2, 4)), dice.choice((1, 4, 16)), 0)
                metadata = {"name": f"{name}-{each}", "namespace": "a", "uid": f"{name}-{each}"}
                status = {"phase": "Running", "startTime": f"{each:03}"}
                documents.append(
                    {
                        "kind": "Pod",
                        "metadata": metadata,
                        "spec": {**asked, "nodeName": name},
                        "status": status,
                    }
                )
    return documents, machines


def main() -> int:
    """Print the times; return 1 where one is beyond its limit."""
    scenarios = {name: scenario(name) for name in KINDS}
    kinds = [
        NodeKind(tuple(f"{name}-{number}" for number in range(count)), scenarios[name])
        for name, count in KINDS.items()
    ]
    shapes = [
        Shape(f"s{number}", Pod.from_manifest(spec(*asked), f"s{number}"), count)
        for number, (count, *asked) in enumerate(FLEET)
    ]
    load = Load(tuple(shapes))
    of_shapes = cpu_seconds(lambda: best_settings(kinds, load))
    nodes, pods = sum(KINDS.values()), sum(count for count, *_ in FLEET)
    print(f"fit --shapes: {pods} pods of {len(shapes)} shapes on {nodes} nodes  {of_shapes:6.1f} s")

    documents, machines = cluster(scenarios)
    gang = {
        "kind": "Job",
        "metadata": {"name": "g"},
        "spec": {"parallelism": 64, "template": {"spec": spec(48, 400, 4)}},
    }

    def explained() -> None:
        live = read_cluster(documents)
        [workload] = workloads_of([gang], "gang.yaml").workloads
        explain(workload, candidates(machines, live.nodes))

    of_pods = cpu_seconds(explained)
    print(f"cluster explain: a gang of 64 on {nodes} nodes with {ON_EACH} pods each  {of_pods:6.1f} s")
    return int(of_shapes > LIMIT_SHAPES_SECONDS or of_pods > LIMIT_PODS_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
