"""Rules about the memory of GPUs next to Grace and Vera: NUMA nodes, or the driver's own (CDMM)."""

import re
from collections import Counter
from collections.abc import Iterator

from numaforge.findings import Severity, scope
from numaforge.findings.engine import Applicability, MachineRule, Scope, Seen, applies
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import format_bytes
from numaforge.machine.topology.gpu_models import is_coherent
from numaforge.machine.topology.memory_mode import (
    DRIVER,
    FIRST_DRIVER_BY_DEFAULT,
    NUMA,
    OPTION,
    driver_branch,
    gpu_memory_mode,
    keeps_memory_online,
    memory_of_gpus,
)
from numaforge.machine.topology.model import NodeTopology

_PARAMETERS = "/proc/driver/nvidia/params"

_coherent = scope.with_driven(
    "with a GPU beside a Grace or Vera CPU",
    is_coherent,
    none="no GPU whose memory the CPU reaches coherently",
)


def _in_mode(mode: str, machines: str, otherwise: str) -> Scope:
    @applies(machines, within=_coherent)
    def in_mode(machine: NodeTopology) -> Applicability:
        in_use = gpu_memory_mode(machine)
        if in_use is None or in_use.mode is None:
            return Applicability(None, in_use.reason if in_use else "no such GPU")
        return Applicability(in_use.mode == mode, in_use.reason if in_use.mode == mode else otherwise)

    return in_mode


_as_numa_nodes = _in_mode(
    NUMA,
    "with a GPU beside a Grace or Vera CPU whose memory is NUMA nodes",
    "the driver keeps the GPUs' memory to itself",
)
_by_driver = _in_mode(
    DRIVER,
    "with a GPU beside a Grace or Vera CPU whose memory the driver manages (CDMM)",
    "the GPUs' memory is NUMA nodes",
)


def _total(machine: NodeTopology) -> str:
    """Return the memory of all GPUs, by NUMA node or as each reports it; "" where unknown."""
    total = sum(memory_of_gpus(machine).values()) or sum(
        gpu.memory_bytes or 0 for gpu in machine.gpus if is_coherent(gpu)
    )
    return format_bytes(total >> 20 << 20) if total else ""


def _left_to_the_branch(machine: NodeTopology) -> Iterator[Seen]:
    setting, branch = scope.nvidia_install(machine).gpu_memory_mode, driver_branch(machine)
    if setting is None or branch is None:
        yield Seen(unknown=f"{OPTION} was not captured")
    elif not setting:
        total = _total(machine)
        current, then = (NUMA, DRIVER) if branch < FIRST_DRIVER_BY_DEFAULT else (DRIVER, NUMA)
        bound = (
            f"from {FIRST_DRIVER_BY_DEFAULT} on" if then == DRIVER else f"before {FIRST_DRIVER_BY_DEFAULT}"
        )
        moved = f", which moves {total} of the node's memory" if total else ""
        static = ", and the kubelet's memory manager is Static" if _is_static(machine) else ""
        yield Seen(
            f"{OPTION} is not set: branch {branch} takes {current}, "
            f"branches {bound} take {then}{moved}{static}"
        )


def _is_static(machine: NodeTopology) -> bool:
    state = machine.kubelet.state_files.get("memory_manager_state", "") if machine.kubelet else ""
    return re.search(r'"policyName"\s*:\s*"Static"', state) is not None


def _counted(machine: NodeTopology) -> Iterator[Seen]:
    bytes_of_nodes = memory_of_gpus(machine)
    if not bytes_of_nodes:
        return
    nodes, total = format_cpulist(bytes_of_nodes), format_bytes(sum(bytes_of_nodes.values()))
    pools: Counter[str] = Counter()
    for node in machine.numa_nodes:
        if node.id in bytes_of_nodes:
            pools.update({size: pool.total for size, pool in node.hugepages.items() if pool.total})
    pages = ", ".join(f"{count} x {size}" for size, count in pools.items())
    pools_note = f", and pools of {pages} are taken of it" if pages else ""
    yield Seen(f"NUMA nodes {nodes} have {total} of GPUs' memory{pools_note}")


def _mig(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in scope.answering(machine):
        if gpu.mig_mode == "enabled" or gpu.mig_pending == "enabled":
            yield Seen("MIG is enabled", gpu.pci_address)


def _next_mode(machine: NodeTopology) -> Iterator[Seen]:
    install, in_use = scope.nvidia_install(machine), gpu_memory_mode(machine)
    asks_for = install.gpu_memory_mode_next
    if asks_for is None:
        yield Seen(unknown="the files of modprobe.d were not captured")
    elif asks_for and in_use is not None and in_use.mode is not None and asks_for != in_use.mode:
        yield Seen(
            f"the module that runs has {in_use.mode} ({in_use.reason}), modprobe.d asks for {asks_for}"
        )


def _persistenced(machine: NodeTopology) -> Iterator[Seen]:
    runs = keeps_memory_online(machine)
    if runs is None:
        yield Seen(unknown="the processes were not captured")
    elif not runs:
        yield Seen("no process nvidia-persistenced runs, neither on the host nor in a container")


_SWITCH = (
    "a change is a maintenance: drain the node, change the option, rebuild the initramfs, remove the "
    "kubelet's memory_manager_state, reboot, and plan again"
)

RULES: tuple[MachineRule, ...] = (
    MachineRule(
        "NG701",
        Severity.WARNING,
        "an upgrade of the driver changes who manages the GPUs' memory",
        _coherent,
        f"{_PARAMETERS}; NVIDIA's driver release notes, branch {FIRST_DRIVER_BY_DEFAULT}",
        f"write `options nvidia {OPTION}=driver` (or =numa) below /etc/modprobe.d: with the mode the node's "
        "capacity changes, and a kubelet with memoryManagerPolicy Static does not start over its old state",
        _left_to_the_branch,
    ),
    MachineRule(
        "NG702",
        Severity.WARNING,
        "the memory of GPUs counts as the node's",
        _as_numa_nodes,
        "/sys/devices/system/node; NVIDIA, Understanding memory management on hardware-coherent platforms",
        f"let the driver manage it (`options nvidia {OPTION}=driver`), where no GPU is cut (NG703): as NUMA "
        f"nodes it is in the node's capacity, and processes of the CPU fill it; {_SWITCH}",
        _counted,
    ),
    MachineRule(
        "NG703",
        Severity.WARNING,
        "MIG is enabled where the driver manages the GPUs' memory",
        _by_driver,
        "NVML; NVIDIA's driver release notes, branch 580",
        "read in NVIDIA's notes of this branch whether it has MIG in this mode: branch 580 has not. Else "
        f"switch MIG off, or set {OPTION}=numa",
        _mig,
    ),
    MachineRule(
        "NG704",
        Severity.WARNING,
        "another mode of the GPUs' memory is loaded next",
        _coherent,
        f"modprobe.d, {_PARAMETERS}",
        f"carry it out while nothing depends on the node's memory: {_SWITCH}",
        _next_mode,
    ),
    MachineRule(
        "NG705",
        Severity.WARNING,
        "nothing keeps the GPUs' memory online",
        _as_numa_nodes,
        "/proc; NVIDIA's open kernel modules, EnableUserNUMAManagement in nv-reg.h",
        "enable nvidia-persistenced.service: where GPUs' memory is NUMA nodes, the driver leaves it to that "
        "daemon to bring the memory online",
        _persistenced,
    ),
)
