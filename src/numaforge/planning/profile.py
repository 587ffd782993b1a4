"""What an admin wants from a node, section by section."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from numaforge.lib.mistakes import shown
from numaforge.lib.section import Section
from numaforge.planning.made_for import MadeFor
from numaforge.planning.measure import Measure, MeasureWish
from numaforge.roles.amd_partitions.section import AmdPartitions
from numaforge.roles.cpus.section import Cpus
from numaforge.roles.cpus.slices.section import System
from numaforge.roles.crio.section import PodTuning
from numaforge.roles.device_plugin.section import DevicePlugin
from numaforge.roles.dra.section import Dra
from numaforge.roles.host.section import Host
from numaforge.roles.hugepages.section import Hugepages
from numaforge.roles.imex.section import ImexService
from numaforge.roles.interrupts.section import Interrupts
from numaforge.roles.kernel_cmdline.section import Kernel
from numaforge.roles.kernel_values.section import Tuning
from numaforge.roles.kubelet.section import Kubelet
from numaforge.roles.memory.section import Memory
from numaforge.roles.mig.section import Mig
from numaforge.roles.modules.section import Modules
from numaforge.roles.rdma.section import NicQueues, Rdma
from numaforge.roles.reboot.section import Maintenance
from numaforge.roles.watch.section import Watch

_LONGEST_NAME = 255  # as for a file name, which names a profile without one


def _one_line(name: str) -> str:
    """Return a name that files and tables can carry."""
    if not name.strip():
        raise ValueError(f"{shown(name)} is not a name; leave it out, and the file's counts")
    if not name.isprintable():
        raise ValueError(f"{shown(name)} is not printable, in one line")
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"{shown(name)} is longer than {_LONGEST_NAME} characters")
    return name


class NodeProfile(Section):
    """What an admin wants from a node; everything is optional."""

    name: Annotated[str, AfterValidator(_one_line)] = Field(
        default="unnamed", description="The profile's name, which the plan carries.", examples=["h100-train"]
    )
    description: str = Field(
        default="", description="One sentence for people.", examples=["Whole-node training jobs"]
    )
    sources: dict[str, str] = Field(
        default={},
        description="The sources of values, by dotted path; the plan's decisions show them.",
        examples=[{"tuning.sysctls.vm.swappiness": "ticket 4711"}],
    )
    made_for: MadeFor = Field(
        default=MadeFor.unset(), description="The kind of machine that the values were chosen for."
    )
    gpu_memory: Literal["numa", "driver"] | None = Field(
        default=None,
        description="What manages the memory of GPUs beside Grace and Vera CPUs, in effect after a reboot. "
        "`numa`: the kernel, as NUMA nodes; `driver`: NVIDIA's driver alone (CDMM). Unset: the default of "
        "the driver's branch.",
    )
    cpus: Cpus = Field(default=Cpus.unset(), description="Reserved CPUs.")
    memory: Memory = Field(default=Memory.unset(), description="Reserved memory.")
    host: Host = Field(default=Host.unset(), description="Limits, packages, clock and control groups.")
    kernel: Kernel = Field(default=Kernel.unset(), description="Kernel settings that only a reboot changes.")
    modules: Modules = Field(default=Modules.unset(), description="Kernel modules and their options.")
    maintenance: Maintenance = Field(
        default=Maintenance.unset(), description="What numaforge may do to a node to apply its plan."
    )
    measure: MeasureWish = Field(
        default=Measure.unset(), description="Whether a node must be measured before it returns to service."
    )
    tuning: Tuning = Field(default=Tuning.unset(), description="Kernel settings that take effect at once.")
    nic_queues: NicQueues = Field(
        default=NicQueues.unset(), description="The number of queues, and so of interrupts, of NICs."
    )
    interrupts: Interrupts = Field(
        default=Interrupts.unset(),
        description="Which CPUs handle the devices: interrupts and received packets.",
    )
    system: System = Field(default=System.unset(), description="Which CPUs the system's own daemons use.")
    hugepages: tuple[Hugepages, ...] = Field(
        default=(), description="Pools of huge pages, one entry per size and place."
    )
    mig: Mig = Field(default=Mig.unset(), description="How GPUs are cut into MIG instances.")
    amd_partitions: AmdPartitions = Field(
        default=AmdPartitions.unset(), description="Compute and memory modes of AMD's Instinct GPUs."
    )
    imex: ImexService = Field(default=ImexService.unset(), description="What runs IMEX on a tray of a rack.")
    pod_tuning: PodTuning = Field(
        default=PodTuning.unset(), description="What pods may request from CRI-O for their own CPUs."
    )
    device_plugin: DevicePlugin = Field(
        default=DevicePlugin.unset(), description="How NVIDIA's device plugin shares GPUs."
    )
    rdma: Rdma = Field(default=Rdma.unset(), description="RDMA devices, for pods and on the host.")
    kubelet: Kubelet = Field(default=Kubelet.unset(), description="The kubelet's resource managers.")
    dra: Dra = Field(
        default=Dra.unset(), description="Dynamic resource allocation: what its drivers allocate."
    )
    watch: Watch = Field(
        default=Watch.unset(), description="Whether the node itself checks that it still matches its plan."
    )

    def choice(self, path: str, reason: str = "the profile's choice") -> str:
        """Return the reason for a value that this profile sets, with its source where it has one."""
        source = self.sources.get(path)
        return f"{reason} ({source})" if source else reason
