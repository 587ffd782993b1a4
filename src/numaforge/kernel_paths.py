"""Where the kernel keeps what a plan sets: one path per governor, hugepage pool and sysctl."""

from __future__ import annotations

import re

from numaforge.planning.model import NodePlan, TuningPlan
from numaforge.quantity import parse_bytes
from numaforge.topology.model import NodeTopology

_TRANSPARENT_HUGEPAGES = "/sys/kernel/mm/transparent_hugepage"


def governor(cpu: int) -> str:
    """Return the path of a CPU's frequency governor."""
    return f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"


def energy_preference(cpu: int) -> str:
    """Return the path of a CPU's energy preference."""
    return f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/energy_performance_preference"


def transparent_hugepages(setting: str) -> str:
    """Return the path of "enabled" or "defrag"."""
    return f"{_TRANSPARENT_HUGEPAGES}/{setting}"


def sysctl(name: str) -> str:
    """Return the path of a sysctl; as in sysctl.d(5), a name whose first separator is "/" keeps its dots."""
    first = re.search(r"[./]", name)
    path = name if first and first[0] == "/" else name.translate(str.maketrans("./", "/."))
    return f"/proc/sys/{path}"


def hugepage_pool(numa_node: int, size: str) -> str:
    """Return the folder of one NUMA node's pool of hugepages of a size such as "2Mi"."""
    return f"/sys/devices/system/node/node{numa_node}/hugepages/hugepages-{parse_bytes(size) // 1024}kB"


def tuning_values(tuning: TuningPlan) -> dict[str, str]:
    """Return every value below /sys that the tuning sets, by path; sysctls are kept apart."""
    return {
        **{governor(cpu): value for cpu, value in tuning.governors.items()},
        **{energy_preference(cpu): value for cpu, value in tuning.energy_preferences.items()},
        **{transparent_hugepages(name): value for name, value in tuning.transparent_hugepages.items()},
    }


def raised_values(tuning: TuningPlan) -> dict[str, str]:
    """Return the least that each limit is to be, by path."""
    return {sysctl(name): value for name, value in tuning.raised_sysctls.items()}


def kernel_values(tuning: TuningPlan) -> dict[str, str]:
    """Return every value that the tuning sets or raises, below /sys and as a sysctl, by path."""
    exact = {sysctl(name): value for name, value in tuning.sysctls.items()}
    return tuning_values(tuning) | exact | raised_values(tuning)


def pool_pages(numa_node: int, size: str) -> str:
    """Return the path of one pool's number of pages."""
    return f"{hugepage_pool(numa_node, size)}/nr_hugepages"


def hugepage_counts(plan: NodePlan) -> dict[str, int]:
    """Return the wanted number of pages of every pool that the plan names, by its `nr_hugepages` path."""
    return {
        pool_pages(node.id, size): pages for node in plan.numa_nodes for size, pages in node.hugepages.items()
    }


def hugepage_totals(machine: NodeTopology) -> dict[str, int]:
    """Return the number of pages that every pool of a NUMA node has, by its `nr_hugepages` path."""
    return {
        pool_pages(node.id, size): pool.total
        for node in machine.numa_nodes
        for size, pool in node.hugepages.items()
    }
