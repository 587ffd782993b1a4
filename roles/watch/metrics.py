"""The metrics that a node exports by itself, which it carries out without numaforge.

Each sample gets the label `node` (configuration.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from numaforge.kubelet_minors.values.pages import pages_of
from numaforge.roles.hugepages.expected import pool_pages
from numaforge.roles.kernel_values.paths import GOVERNOR

if TYPE_CHECKING:
    from numaforge.planning.capacity import PredictedAllocatable
    from numaforge.planning.plan import NodePlan


class Sample(NamedTuple):
    """A sample of a metric, by where its value comes from.

    "stated": `source` is the value, by the plan. "measured": it is a file whose first line is the number.
    "stalled": the kernel's pressure file, with the seconds for which tasks have waited; a sample per label
    `kind`. "counted": the path of a file of each of the `cpus`; a sample per text in them, which is the label
    `by`, with the number of CPUs that have it.
    """

    origin: Literal["stated", "measured", "stalled", "counted"]
    labels: Mapping[str, str]
    source: str
    by: str = ""
    cpus: frozenset[int] = frozenset()


def stated(labels: Mapping[str, str], value: float = 1) -> Sample:
    """Return a sample computed from the plan alone."""
    return Sample("stated", labels, str(value))


class Family(NamedTuple):
    """The samples of one metric; `kind` is Prometheus' type: gauge or counter."""

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


def families(plan: NodePlan) -> Iterator[Family]:
    """Yield the metrics of a plan; numa and UUID are "" where the kernel or the driver shows none."""
    numa = {cpu: str(node.id) for node in plan.memory.numa_nodes for cpu in node.cpus}
    yield Family(
        "numaforge_plan_reserved_cpu",
        "gauge",
        "A CPU that pods with CPUs of their own never get.",
        tuple(stated({"cpu": str(cpu), "numa": numa.get(cpu, "")}) for cpu in sorted(plan.cpus.reserved)),
    )
    governors = Sample("counted", {}, GOVERNOR, "governor", plan.cpus.online)
    yield Family("numaforge_cpu_governor", "gauge", "CPUs with this frequency governor.", (governors,))
    groups = ["system.slice", *([f"system.slice/{plan.kubelet.unit}"] if plan.kubelet else [])]
    yield Family(
        "numaforge_reserved_cpu_pressure_seconds_total",
        "counter",
        "Seconds in which some or all (full) tasks of a control group have waited for a CPU (PSI).",
        tuple(
            Sample("stalled", {"cgroup": group}, f"/sys/fs/cgroup/{group}/cpu.pressure") for group in groups
        ),
    )
    pools = [
        ({"numa": _shown(pool.numa_node), "size": pool.size}, pool, pool_pages(pool.numa_node, pool.size))
        for pool in plan.hugepages.pools
    ]
    yield Family(
        "numaforge_plan_hugepages",
        "gauge",
        "Huge pages that the plan gives a NUMA node.",
        tuple(stated(labels, pool.pages) for labels, pool, _ in pools),
    )
    yield Family(
        "numaforge_hugepages_actual",
        "gauge",
        "Huge pages that the NUMA node has.",
        tuple(Sample("measured", labels, path) for labels, _, path in pools),
    )
    offered = _offered(plan.allocatable) if plan.allocatable else ()
    yield Family(
        "numaforge_plan_allocatable",
        "gauge",
        "What the plan has the node offer, with the labels of kube_node_status_allocatable.",
        tuple(stated({"resource": name, "unit": unit}, value) for name, unit, value in offered),
    )
    gpus = [
        {"UUID": gpu.uuid or "", "pci_bus_id": gpu.pci_address, "numa": _shown(gpu.numa_node)}
        for gpu in (plan.watch.gpus if plan.watch else ())
    ]
    yield Family(
        "numaforge_plan_gpu",
        "gauge",
        "A GPU that the node had when it was planned.",
        tuple(map(stated, gpus)),
    )


def _shown(numa_node: int | None) -> str:
    return "" if numa_node is None else str(numa_node)


def _offered(allocatable: PredictedAllocatable) -> Iterator[tuple[str, str, int | float]]:
    """Yield the predicted Allocatable with its units, spelled as kube-state-metrics does.

    Source: its internal/store/node.go (createNodeStatusAllocatableFamilyGenerator).
    """
    yield "cpu", "core", allocatable.cpu_millis / 1000
    yield "memory", "byte", allocatable.memory_bytes
    for size, count in sorted(allocatable.hugepages_bytes.items()):
        yield _sanitized(pages_of(size)), "byte", count
    for name, count in sorted(allocatable.devices.items()):
        yield _sanitized(name), "integer", count


def _sanitized(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
