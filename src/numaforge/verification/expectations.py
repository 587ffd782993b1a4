"""What a plan promises about its host, one entry per promise: the name that a test shows, and the value.

Each function here is the table of one test: pure, from the plan alone. ALL of them together are what a host
is held to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numaforge import kernel_paths
from numaforge.cpulist import format_cpulist
from numaforge.planning.model import KernelPlan, MigPlan, NodePlan, TuningPlan
from numaforge.quantity import parse_quantity

Expectations = Mapping[str, Any]

HOSTNAME = "/proc/sys/kernel/hostname"
ONLINE = "/sys/devices/system/cpu/online"


def of_roles(plan: NodePlan, roles: Sequence[str] | None) -> NodePlan:
    """Return the part of a plan that these roles have to see to; None: all of it."""
    if roles is None:
        return plan
    if "kubelet" in roles:  # it fills the pools that a running kubelet offers
        roles = [*roles, "hugepages"]
    nodes = plan.numa_nodes
    if "hugepages" not in roles:
        nodes = tuple(replace(node, hugepages={}) for node in nodes)
    return replace(
        plan,
        tuning=plan.tuning if "tuning" in roles else TuningPlan(),
        kernel=plan.kernel if "tuning" in roles else KernelPlan(),
        mig=plan.mig if "mig" in roles else MigPlan(),
        numa_nodes=nodes,
        files=tuple(file for file in plan.files if file.role in roles),
        kubelet=plan.kubelet if "kubelet" in roles else None,
        allocatable=plan.allocatable if "kubelet" in roles else None,
    )


def machine(plan: NodePlan) -> Expectations:
    """What the plan was made for: the host's name, its online CPUs, the CPUs of each NUMA node."""
    return {
        "hostname": (HOSTNAME, plan.hostname),
        "online-cpus": (ONLINE, format_cpulist(plan.cpus.online)),
        **{
            f"numa-node-{node.id}": (
                f"/sys/devices/system/node/node{node.id}/cpulist",
                format_cpulist(node.cpus),
            )
            for node in plan.numa_nodes
        },
    }


def governors(plan: NodePlan) -> Expectations:
    """The governor of each CPU."""
    return {
        f"cpu{cpu}": (kernel_paths.governor(cpu), value)
        for cpu, value in sorted(plan.tuning.governors.items())
    }


def energy_preferences(plan: NodePlan) -> Expectations:
    """The energy preference of each CPU."""
    return {
        f"cpu{cpu}": (kernel_paths.energy_preference(cpu), value)
        for cpu, value in sorted(plan.tuning.energy_preferences.items())
    }


def transparent_hugepages(plan: NodePlan) -> Expectations:
    """The switches of transparent huge pages."""
    return {
        name: (kernel_paths.transparent_hugepages(name), value)
        for name, value in sorted(plan.tuning.transparent_hugepages.items())
    }


def sysctls(plan: NodePlan) -> Expectations:
    """Each kernel parameter."""
    return {name: (kernel_paths.sysctl(name), value) for name, value in sorted(plan.tuning.sysctls.items())}


def raised_sysctls(plan: NodePlan) -> Expectations:
    """The least that each limit of the kernel is."""
    return {
        name: (kernel_paths.sysctl(name), value) for name, value in sorted(plan.tuning.raised_sysctls.items())
    }


def kernel_cmdline(plan: NodePlan) -> Expectations:
    """The parameters of the kernel's command line, where a reboot for them is allowed; else they may wait."""
    return {parameter: parameter for parameter in plan.kernel.cmdline if plan.kernel.reboot == "allowed"}


def swap(plan: NodePlan) -> Expectations:
    """No swap, where the plan turns it off."""
    return {"off": ()} if plan.tuning.swap_off else {}


def hugepages(plan: NodePlan) -> Expectations:
    """Each pool of huge pages, by NUMA node and size."""
    return {
        f"numa-node-{node.id}-{size}": (
            kernel_paths.pool_pages(node.id, size),
            str(pages),
        )
        for node in plan.numa_nodes
        for size, pages in sorted(node.hugepages.items())
    }


def mig(plan: NodePlan) -> Expectations:
    """How each GPU is cut, by PCI address, and whether that is ours: the DRA driver cuts by itself."""
    if plan.mig.managed_by == "gpu-operator":
        return {}
    return {gpu.pci_address: (gpu, plan.mig.managed_by == "numaforge") for gpu in plan.mig.gpus}


def files(plan: NodePlan) -> Expectations:
    """Each file that numaforge wrote."""
    return {file.path: file for file in plan.files}


def units(plan: NodePlan) -> Expectations:
    """The states that each unit may be in: the kubelet runs; one that acts at boot has not failed."""
    at_boot = [file.path.rsplit("/", 1)[1] for file in plan.files if _is_unit(file.path)]
    kubelet = {plan.kubelet.unit: ("active",)} if plan.kubelet else {}
    return {**dict.fromkeys(at_boot, ("active", "inactive")), **kubelet}


def boot_units(plan: NodePlan) -> Expectations:
    """The units that have to start at boot."""
    return dict.fromkeys(units(plan), "enabled")


def kubelet_files(plan: NodePlan) -> Expectations:
    """The kubelet's files, which it reads only when it starts."""
    return {file.path: file for file in plan.files if file.role == "kubelet"}


def kubelet_settings(plan: NodePlan) -> Expectations:
    """Each field of the kubelet's configuration."""
    return dict(plan.kubelet.settings) if plan.kubelet else {}


def allocatable(plan: NodePlan) -> Expectations:
    """Each resource of the node's Allocatable, in the units of the plan: CPUs, bytes, devices."""
    if plan.allocatable is None:
        return {}
    return {name: float(parse_quantity(text)) for name, text in plan.allocatable.quantities.items()}


ALL: tuple[Callable[[NodePlan], Expectations], ...] = (
    machine,
    governors,
    energy_preferences,
    transparent_hugepages,
    sysctls,
    raised_sysctls,
    kernel_cmdline,
    swap,
    hugepages,
    mig,
    files,
    units,
    boot_units,
    kubelet_files,
    kubelet_settings,
    allocatable,
)


def at_least(plan: NodePlan) -> int:
    """How many promises any plan makes: hostname, CPUs, its own file, NUMA nodes, the kubelet's settings."""
    return 3 + len(plan.numa_nodes) + (len(plan.kubelet.settings) if plan.kubelet else 0)


def count(plan: NodePlan) -> int:
    """How many promises this plan makes."""
    return sum(len(table(plan)) for table in ALL)


def _is_unit(path: str) -> bool:
    return path.startswith("/etc/systemd/system/") and path.endswith(".service")
