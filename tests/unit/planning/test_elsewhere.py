"""What others reserve: their own published examples."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from lab.paths import REPOSITORY
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.report.tables import plan_tables
from numaforge.roles.capacity.elsewhere import (
    aks_cpu_millis,
    aks_memory,
    eks_memory,
    elsewhere,
    gke_memory,
    step_cpu_millis,
)
from numaforge.topology import read_topology
from tests.machines import files

MIB = 2**20
GIB = 2**30
MB = 10**6

CPUS = {
    "first-cpu-6%": (step_cpu_millis, 1, 60),
    "second-cpu-1%": (step_cpu_millis, 2, 70),
    "two-more-0.5%": (step_cpu_millis, 4, 80),
    "the-rest-0.25%": (step_cpu_millis, 8, 90),
    "eks-rounds-each-step-down": (step_cpu_millis, 5, 82),
    "dgx": (step_cpu_millis, 224, 630),
    # learn.microsoft.com/azure/aks/node-resource-reservations
    "aks-1": (aks_cpu_millis, 1, 60),
    "aks-2": (aks_cpu_millis, 2, 100),
    "aks-4": (aks_cpu_millis, 4, 140),
    "aks-8": (aks_cpu_millis, 8, 180),
    "aks-16": (aks_cpu_millis, 16, 260),
    "aks-32": (aks_cpu_millis, 32, 420),
    "aks-64": (aks_cpu_millis, 64, 740),
    "aks-between-two-rows": (aks_cpu_millis, 48, 580),
    "aks-beyond-its-table": (aks_cpu_millis, 224, 2340),
}


@pytest.mark.parametrize(("formula", "cpus", "millis"), CPUS.values(), ids=CPUS.keys())
def test_millicores(formula, cpus, millis):
    assert formula(cpus) == millis


MEMORY = {
    "gke-below-1-gib": (gke_memory(GIB // 2), 255 * MIB),
    "gke-4-gib": (gke_memory(4 * GIB), GIB),
    # 1024 + 819.2 + 819.2 + 2949.12 MiB
    "gke-64-gib": (gke_memory(64 * GIB), 5611 * MIB + int(0.52 * MIB)),
    "gke-2-percent-above-128-gib": (gke_memory(228 * GIB) - gke_memory(128 * GIB), 2 * GIB),
    # awslabs/amazon-eks-ami: what nodeadm writes for an m5.large, and for the kubelet's own number
    "eks-29-pods": (eks_memory(29), 574 * MIB),
    "eks-110-pods": (eks_memory(110), 1465 * MIB),
    # the two examples of learn.microsoft.com/azure/aks/node-resource-reservations
    "aks-8-gb-30-pods": (aks_memory(8000 * MB, 30), 650 * MB),
    "aks-4-gb-70-pods": (aks_memory(4000 * MB, 70), 1000 * MB),
}


@pytest.mark.parametrize(("reserved", "published"), MEMORY.values(), ids=MEMORY.keys())
def test_memory(reserved, published):
    assert abs(reserved - published) <= 1


def test_each_has_its_source():
    listed = elsewhere(224, 2048 * GIB, 110)
    assert [(other.name, other.cpu_millis) for other in listed] == [
        ("GKE", 630),
        ("EKS", 630),
        ("AKS", 2340),
        ("kubespray", 600),
    ]
    assert all(other.source for other in listed)


def test_the_table_of_the_documentation_is_that_of_a_dgx_h100():
    page = (REPOSITORY / "docs" / "reserved.md").read_text()
    (block,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    plan = plan_node(
        read_topology(files.stored("nvidia-dgx-h100").snapshot()), load_profile({"name": "none"}), "1.36"
    )
    out = io.StringIO()
    Console(file=out, width=200).print(plan_tables(plan))
    shown = [line.split() for line in out.getvalue().splitlines()]
    for line in block.splitlines():
        assert line.split() in shown, line
