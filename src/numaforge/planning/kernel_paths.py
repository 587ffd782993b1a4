"""Where the kernel keeps what a plan sets: one path per governor, hugepage pool and sysctl."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from numaforge.cpulist import format_cpulist, format_cpumask
from numaforge.errors import PlanError
from numaforge.planning.model import InterruptsPlan, NodePlan, TuningPlan
from numaforge.quantity import parse_bytes
from numaforge.roles.kernel_values.knobs import KNOB_AT, KNOBS
from numaforge.topology.model import NodeTopology

_FOLDERS = {knob.feature.field: knob.feature.folder for knob in KNOBS if knob.feature and knob.feature.field}


def governor(cpu: int) -> str:
    """Return the path of a CPU's frequency governor."""
    return f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"


def energy_preference(cpu: int) -> str:
    """Return the path of a CPU's energy preference."""
    return f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/energy_performance_preference"


def cpu_folder(cpu: int) -> str:
    """Return the folder of a CPU, with its last slash."""
    return f"/sys/devices/system/cpu/cpu{cpu}/"


def online(cpu: int) -> str:
    """Return the path of the switch that takes a CPU offline."""
    return f"{cpu_folder(cpu)}online"


def switched_cpu(path: str) -> int | None:
    """Return the CPU of such a switch, None for any other path."""
    match = re.fullmatch(r"/sys/devices/system/cpu/cpu(\d+)/online", path)
    return int(match[1]) if match else None


def idle_state(cpu: int, index: int) -> str:
    """Return the path that switches a CPU's sleep state off."""
    return f"/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{index}/disable"


def rdma_port_state(device: str, port: str) -> str:
    """Return the path of an RDMA port's state, such as "4: ACTIVE"."""
    return f"/sys/class/infiniband/{device}/ports/{port}/state"


def sysctl(name: str) -> str:
    """Return the path of a sysctl; as in sysctl.d(5), a name whose first separator is "/" keeps its dots.

    Raises PlanError for a name that leads out of the folder.
    """
    first = re.search(r"[./]", name)
    path = name if first and first[0] == "/" else name.translate(str.maketrans("./", "/."))
    if {"", ".", ".."}.intersection(path.split("/")):
        raise PlanError(
            f"{name!r} is not a sysctl",
            where="sysctls",
            remedy="write its dotted name, for example vm.swappiness",
        )
    return f"/proc/sys/{path}"


def hugepage_pool(numa_node: int | None, size: str) -> str:
    """Return the folder of a NUMA node's pool of pages of a size such as "2Mi", or of the machine's."""
    above = "/sys/kernel/mm" if numa_node is None else f"/sys/devices/system/node/node{numa_node}"
    return f"{above}/hugepages/hugepages-{parse_bytes(size) // 1024}kB"


def tuning_values(tuning: TuningPlan) -> dict[str, str]:
    """Return every value below /sys that the tuning sets, by path; sysctls are kept apart."""
    return {
        **{governor(cpu): value for cpu, value in tuning.governors.items()},
        **{energy_preference(cpu): value for cpu, value in tuning.energy_preferences.items()},
        **idle_states(tuning),
        **knob_values(tuning),
        **{online(cpu): "0" for cpu in sorted(tuning.offline.cpus)},
    }


def knob_values(tuning: TuningPlan) -> dict[str, str]:
    """Return the value of each knob below /sys that the tuning sets, by path."""
    held = {field: getattr(tuning, field) for field in _FOLDERS}
    held["ksm"] = {} if tuning.ksm is None else {"run": tuning.ksm}
    return {
        **tuning.values,
        **{f"{_FOLDERS[field]}{name}": held[field][name] for field in held for name in held[field]},
    }


def knob_fields(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a TuningPlan that hold these values of knobs, by path."""
    fields: dict[str, dict[str, str]] = {field: {} for field in (*_FOLDERS, "values")}
    for path, value in sorted(values.items()):
        feature = KNOB_AT[path].feature
        field = (feature and feature.field) or "values"
        fields[field][path.removeprefix(_FOLDERS.get(field, ""))] = value
    return {**fields, "ksm": fields["ksm"].get("run")}


def idle_states(tuning: TuningPlan) -> dict[str, str]:
    """Return the value of every sleep state that is switched off, by path."""
    return {
        idle_state(cpu, state.index): "1" for state in tuning.idle_states_off for cpu in sorted(state.cpus)
    }


def raised_values(tuning: TuningPlan) -> dict[str, str]:
    """Return the least that each limit is to be, by path."""
    return {sysctl(name): value for name, value in tuning.raised_sysctls.items()}


def kernel_values(tuning: TuningPlan) -> dict[str, str]:
    """Return every value that the tuning sets or raises, below /sys and as a sysctl, by path."""
    exact = {sysctl(name): value for name, value in tuning.sysctls.items()}
    return tuning_values(tuning) | exact | raised_values(tuning)


DEFAULT_AFFINITY = "/proc/irq/default_smp_affinity"
WORKQUEUES = "/sys/devices/virtual/workqueue/cpumask"


def affinity_lines(plan: InterruptsPlan) -> tuple[str, ...]:
    """Return a plan as the lines that roles/interrupts/affinity.sh reads."""
    masks = {DEFAULT_AFFINITY: plan.default_affinity, WORKQUEUES: plan.workqueues}
    return (
        *(f"mask {path} {format_cpumask(cpus)}" for path, cpus in masks.items() if cpus),
        *(f"device {address} {format_cpulist(cpus)}" for address, cpus in sorted(plan.devices.items())),
        *(f"rps {name} {format_cpumask(cpus)}" for name, cpus in sorted(plan.rps.items())),
    )


def pool_pages(numa_node: int | None, size: str) -> str:
    """Return the path of one pool's number of pages."""
    return f"{hugepage_pool(numa_node, size)}/nr_hugepages"


def hugepage_counts(plan: NodePlan) -> dict[str, int]:
    """Return the wanted number of pages of every pool that the plan names, by its `nr_hugepages` path."""
    return {
        **{pool_pages(None, size): pages for size, pages in plan.hugepages.items()},
        **{
            pool_pages(node.id, size): pages
            for node in plan.numa_nodes
            for size, pages in node.hugepages.items()
        },
    }


def hugepage_totals(machine: NodeTopology) -> dict[str, int]:
    """Return the number of pages that every pool has, by its `nr_hugepages` path.

    The machine's own pools are those of a kernel without NUMA nodes; elsewhere they are sums.
    """
    if not machine.numa_nodes:
        return {pool_pages(None, size): pool.total for size, pool in machine.hugepages.items()}
    return {
        pool_pages(node.id, size): pool.total
        for node in machine.numa_nodes
        for size, pool in node.hugepages.items()
    }
