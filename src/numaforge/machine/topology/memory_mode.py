"""Who manages the memory of GPUs beside Grace and Vera: the kernel, as NUMA nodes, or the driver (CDMM)."""

from dataclasses import dataclass

from numaforge.lib.codec import KnownKeysOnly
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.given import digits
from numaforge.lib.quantity import format_bytes
from numaforge.machine.topology.gpu_models import is_coherent
from numaforge.machine.topology.links import nodes_of_gpus
from numaforge.machine.topology.model import NodeTopology

OPTION = "NVreg_CoherentGPUMemoryMode"
"""The option of nvidia.ko, for the whole machine; it takes a reload of the module or a reboot."""
FIRST_DRIVER = 580
"""The first branch that has the option (CDMM; NVIDIA's release notes)."""
FIRST_DRIVER_BY_DEFAULT = 615
"""The first branch whose default is `driver` on Grace and Vera (NVIDIA's release notes)."""

DRIVER, NUMA = "driver", "numa"
_PERSISTENCED = "nvidia-persiste"  # as the kernel cuts its name
_HBM_BYTES = 64 * 2**30  # a GPU of these boards has more, CXL memory of its own node may have less


@dataclass(frozen=True)
class GpuMemoryMode(KnownKeysOnly):
    """What manages coherent GPUs' memory: "numa" (the kernel), "driver" (CDMM), None; and how we know."""

    mode: str | None
    reason: str


def gpu_memory_mode(machine: NodeTopology) -> GpuMemoryMode | None:
    """Return the mode of the machine, None where no GPU has memory that the CPU reaches coherently."""
    if not any(map(is_coherent, machine.gpus)):
        return None
    option = machine.nvidia_install.gpu_memory_mode if machine.nvidia_install else None
    if option in (DRIVER, NUMA):
        return GpuMemoryMode(option, f"{OPTION} is {option}")
    branch = driver_branch(machine)
    if branch is not None and branch >= FIRST_DRIVER_BY_DEFAULT:
        return GpuMemoryMode(DRIVER, f"the default of driver {branch}")
    sizes = memory_of_gpus(machine)
    if sizes:
        nodes = format_cpulist(sizes)
        return GpuMemoryMode(NUMA, f"NUMA nodes {nodes} have {format_bytes(sum(sizes.values()))}")
    return GpuMemoryMode(None, f"{OPTION} was not captured" if option is None else f"{OPTION} is not set")


def memory_of_gpus(machine: NodeTopology) -> dict[int, int]:
    """Return the memory in bytes of each NUMA node that is a GPU's, of the size of HBM."""
    nodes, coherent = nodes_of_gpus(machine), any(map(is_coherent, machine.gpus))
    return {
        node.id: node.memory_bytes
        for node in machine.numa_nodes
        if not node.cpus and node.memory_bytes
        if node.id in nodes or (coherent and node.memory_bytes >= _HBM_BYTES)
    }


def keeps_memory_online(machine: NodeTopology) -> bool | None:
    """Say whether nvidia-persistenced runs, on the host or in a container; None where it was not looked for.

    Where GPUs' memory is NUMA nodes the driver leaves it to that daemon to bring the memory online
    (EnableUserNUMAManagement in nv-reg.h of NVIDIA's open kernel modules).
    """
    daemons = machine.nvidia_install.daemons if machine.nvidia_install else None
    return None if daemons is None else any(process.name == _PERSISTENCED for process in daemons)


def driver_branch(machine: NodeTopology) -> int | None:
    """Return the branch of NVIDIA's driver, 580 of 580.95.05: of the module that runs, else by NVML."""
    loaded = machine.nvidia_install.loaded if machine.nvidia_install else None
    version = loaded or (machine.nvidia.version if machine.nvidia else None)
    return digits((version or "").partition(".")[0])
