"""What a plan promises about its host, one entry per promise: the name that a test shows, and the value.

Each function here is the table of one test: pure, from the plan alone. ALL of them together are what a host
is held to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numaforge.cpulist import format_cpulist
from numaforge.roles.crio.plan import HANDLER
from numaforge.roles.host.files import limits_path
from numaforge.roles.host.plan import HostPlan, unit_limits
from numaforge.roles.hugepages import paths as hugepages_paths
from numaforge.roles.interrupts import paths as interrupts_paths
from numaforge.roles.interrupts.plan import InterruptsPlan
from numaforge.roles.kernel_cmdline.plan import KernelPlan
from numaforge.roles.kernel_values import paths as kernel_values_paths
from numaforge.roles.kernel_values.knobs import KNOB_AT
from numaforge.roles.kernel_values.plan import TuningPlan
from numaforge.roles.mig.instance import MigPlan
from numaforge.roles.modules.plan import ModulesPlan
from numaforge.roles.node import NodePlan
from numaforge.roles.rdma import paths as rdma_paths
from numaforge.roles.rdma.planned import RdmaPlan
from numaforge.roles.slices.plan import SystemPlan
from numaforge.topology.runtime import CRIO
from numaforge.verification.thresholds import ALL_REDUCE_GPUS

Expectations = Mapping[str, Any]

HOSTNAME = "/proc/sys/kernel/hostname"
NETNS = "/sys/module/ib_core/parameters/netns_mode"
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
        plan = replace(plan, hugepages={})
    return replace(
        plan,
        tuning=plan.tuning if "tuning" in roles else TuningPlan(),
        kernel=plan.kernel if "tuning" in roles else KernelPlan(),
        interrupts=plan.interrupts if "interrupts" in roles else InterruptsPlan(),
        system=plan.system if "system" in roles else SystemPlan(),
        modules=plan.modules if "modules" in roles else ModulesPlan(),
        mig=plan.mig if "mig" in roles else MigPlan(),
        rdma=plan.rdma if "rdma" in roles else RdmaPlan(),
        host=plan.host if "host" in roles else HostPlan(),
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
        f"cpu{cpu}": (kernel_values_paths.governor(cpu), value)
        for cpu, value in sorted(plan.tuning.governors.items())
    }


def energy_preferences(plan: NodePlan) -> Expectations:
    """The energy preference of each CPU."""
    return {
        f"cpu{cpu}": (kernel_values_paths.energy_preference(cpu), value)
        for cpu, value in sorted(plan.tuning.energy_preferences.items())
    }


def idle_states(plan: NodePlan) -> Expectations:
    """The sleep states that are switched off, by CPU."""
    return {
        f"cpu{cpu}-state{state.index}": (kernel_values_paths.idle_state(cpu, state.index), "1")
        for state in plan.tuning.idle_states_off
        for cpu in sorted(state.cpus)
    }


def kernel_values(plan: NodePlan) -> Expectations:
    """The value of each knob, by its key in a profile."""
    values = kernel_values_paths.knob_values(plan.tuning)
    return {KNOB_AT[path].key: (path, value) for path, value in sorted(values.items())}


def sysctls(plan: NodePlan) -> Expectations:
    """Each kernel parameter."""
    return {
        name: (kernel_values_paths.sysctl(name), value) for name, value in sorted(plan.tuning.sysctls.items())
    }


def raised_sysctls(plan: NodePlan) -> Expectations:
    """The least that each limit of the kernel is."""
    return {
        name: (kernel_values_paths.sysctl(name), value)
        for name, value in sorted(plan.tuning.raised_sysctls.items())
    }


def kernel_cmdline(plan: NodePlan) -> Expectations:
    """The parameters of the kernel's command line, where a reboot for them is allowed; else they may wait."""
    return {parameter: parameter for parameter in plan.kernel.cmdline if plan.kernel.reboot == "allowed"}


def interrupts(plan: NodePlan) -> Expectations:
    """The CPUs that answer each device, by PCI address."""
    return dict(sorted(plan.interrupts.devices.items()))


def packet_steering(plan: NodePlan) -> Expectations:
    """The CPUs that take packets of each interface, by its name."""
    return dict(sorted(plan.interrupts.rps.items()))


def cpu_masks(plan: NodePlan) -> Expectations:
    """The kernel's masks: for interrupts to come, and for its workqueues."""
    masks = {
        "default-affinity": (interrupts_paths.DEFAULT_AFFINITY, plan.interrupts.default_affinity),
        "workqueues": (interrupts_paths.WORKQUEUES, plan.interrupts.workqueues),
    }
    return {name: (path, cpus) for name, (path, cpus) in masks.items() if cpus}


def irqbalance(plan: NodePlan) -> Expectations:
    """What irqbalance does: it does not run, or leaves the CPUs of workloads alone."""
    wish = plan.interrupts
    return {wish.irqbalance: wish.banned} if wish.irqbalance else {}


def slices(plan: NodePlan) -> Expectations:
    """The CPUs of the system's own daemons, by slice."""
    return dict(sorted(plan.system.slices.items()))


def modules(plan: NodePlan) -> Expectations:
    """Each module that is loaded, and each that is not where a boot for that is allowed."""
    gone = plan.modules.blocked if plan.kernel.reboot == "allowed" else ()
    return {**dict.fromkeys(plan.modules.load, True), **dict.fromkeys(gone, False)}


def module_options(plan: NodePlan) -> Expectations:
    """Each option of a module, where a boot for it is allowed; else it may wait."""
    if plan.kernel.reboot != "allowed":
        return {}
    return {
        f"{module}-{name}": (f"/sys/module/{module}/parameters/{name}", value or "1")
        for module, options in plan.modules.options.items()
        for name, _, value in (option.partition("=") for option in options)
    }


def rdma_netns(plan: NodePlan) -> Expectations:
    """The mode of the RDMA subsystem; it may wait for a boot that is not allowed."""
    mode = plan.rdma.host.netns
    return {"netns": mode} if mode and plan.kernel.reboot == "allowed" else {}


def memlock(plan: NodePlan) -> Expectations:
    """Each unit that may pin as much memory as it wants."""
    return dict.fromkeys(plan.rdma.host.memlock_units, "infinity")


def nics(plan: NodePlan) -> Expectations:
    """Each setting of a NIC."""
    return {f"{each.nic}-{each.name}": each for each in plan.rdma.host.nics}


def rdma_character_devices(plan: NodePlan) -> Expectations:
    """The character devices of each RDMA device that pods may get."""
    devices = plan.rdma.host.character_devices
    return {f"{name}-{kind}": (name, kind) for name, kinds in devices.items() for kind in kinds}


def access_control(plan: NodePlan) -> Expectations:
    """What each PCIe bridge controls, its ids and its mask, where a reboot for it is allowed."""
    acs = plan.rdma.acs
    planned = plan.kernel.cmdline and plan.kernel.reboot == "allowed"
    return {address: (acs.bridges[address], mask) for address, mask in acs.masks.items() if planned}


def swap(plan: NodePlan) -> Expectations:
    """No swap, where the plan turns it off."""
    return {"off": ()} if plan.tuning.swap_off else {}


def hugepages(plan: NodePlan) -> Expectations:
    """Each pool of huge pages, by NUMA node and size; by size alone, where the kernel shows no NUMA nodes."""
    pools = [(f"numa-node-{node.id}-", node.id, node.hugepages) for node in plan.numa_nodes]
    return {
        f"{name}{size}": (hugepages_paths.pool_pages(place, size), str(pages))
        for name, place, held in (("", None, plan.hugepages), *pools)
        for size, pages in sorted(held.items())
    }


def mig(plan: NodePlan) -> Expectations:
    """How each GPU is cut, by PCI address, and whether that is ours: the DRA driver cuts by itself."""
    if plan.mig.managed_by == "gpu-operator":
        return {}
    return {gpu.pci_address: (gpu, plan.mig.managed_by == "numaforge") for gpu in plan.mig.gpus}


def rail_ports(plan: NodePlan) -> Expectations:
    """The state of each RDMA port that libraries are told of."""
    ports = plan.rdma.libraries.ports
    return {port: (rdma_paths.rdma_port_state(*port.split(":")), "ACTIVE") for port in ports}


def rail_gpus(plan: NodePlan) -> Expectations:
    """The GPUs that have rails, all together, where there is a figure for so many."""
    gpus = tuple(rail.pci_address for rail in plan.rdma.libraries.gpus)
    return {"all-reduce": gpus} if len(gpus) == ALL_REDUCE_GPUS else {}


def held_packages(plan: NodePlan) -> Expectations:
    """Each package that stays at its version."""
    return dict.fromkeys(plan.host.holds, True)


def limits(plan: NodePlan) -> Expectations:
    """The limits of each unit that has some, once it has started with them.

    How many files it opens is the kubelet's own: it sets maxOpenFiles itself (cmd/kubelet/app/server.go).
    """
    said = unit_limits(plan.host)
    return {
        f"{unit}-{name}": (unit, limits_path(unit), name, value)
        for unit in plan.host.limited_units
        for name, value in said.items()
        if (unit, name) != ("kubelet.service", "LimitNOFILE")
    }


def runtime_handler(plan: NodePlan) -> Expectations:
    """The unit that has to know of the runtime class's handler."""
    return {HANDLER: CRIO} if plan.pod_tuning.annotations else {}


def clock(plan: NodePlan) -> Expectations:
    """The clock is synchronised, where the plan requires that."""
    return {"synchronised": "yes"} if plan.host.time_sync else {}


def cgroup(plan: NodePlan) -> Expectations:
    """The version of control groups, where the plan requires one."""
    return {f"v{plan.host.cgroup}": plan.host.cgroup} if plan.host.cgroup else {}


def files(plan: NodePlan) -> Expectations:
    """Each file that numaforge wrote."""
    return {file.path: file for file in plan.files if not file.waits}


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
    """Each resource of the node's Allocatable, as Kubernetes writes quantities."""
    return {} if plan.allocatable is None else dict(plan.allocatable.quantities)


ALL: tuple[Callable[[NodePlan], Expectations], ...] = (
    machine,
    governors,
    energy_preferences,
    idle_states,
    kernel_values,
    sysctls,
    raised_sysctls,
    kernel_cmdline,
    interrupts,
    packet_steering,
    cpu_masks,
    irqbalance,
    slices,
    access_control,
    swap,
    modules,
    module_options,
    rdma_netns,
    memlock,
    nics,
    rdma_character_devices,
    hugepages,
    mig,
    rail_ports,
    held_packages,
    limits,
    runtime_handler,
    clock,
    cgroup,
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
