"""The metrics of the predicted Allocatable; resources are spelled as kube-state-metrics spells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.kubelet_minors.values.pages import pages_of
from numaforge.roles.metric import Family, Stated

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return the predicted Allocatable, where it is known."""
    return (
        Family(
            "numaforge_plan_allocatable",
            "gauge",
            "What the plan has the node offer, with the labels of kube_node_status_allocatable.",
            tuple(Stated({"resource": name, "unit": unit}, value) for name, unit, value in _offered(plan)),
        ),
    )


def _offered(plan: NodePlan) -> Iterator[tuple[str, str, int | float]]:
    # kube-state-metrics, internal/store/node.go (createNodeStatusAllocatableFamilyGenerator)
    offered = plan.allocatable
    if offered is None:
        return
    yield "cpu", "core", offered.cpu_millis / 1000
    yield "memory", "byte", offered.memory_bytes
    for size, count in sorted(offered.hugepages_bytes.items()):
        yield _sanitized(pages_of(size)), "byte", count
    for name, count in sorted(offered.devices.items()):
        yield _sanitized(name), "integer", count


def _sanitized(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
