"""A profile as a whole: what an admin wants from a node."""

from __future__ import annotations

from pydantic import Field

from numaforge.profile.section import Section
from numaforge.roles.cpus.section import Cpus
from numaforge.roles.crio.section import PodTuning
from numaforge.roles.device_plugin.section import DevicePlugin
from numaforge.roles.host.section import Host
from numaforge.roles.hugepages.section import Hugepages
from numaforge.roles.interrupts.section import Interrupts
from numaforge.roles.kernel_cmdline.section import Kernel
from numaforge.roles.kernel_values.section import Tuning
from numaforge.roles.kubelet.section import Kubelet
from numaforge.roles.made_for.section import MadeFor
from numaforge.roles.memory.section import Memory
from numaforge.roles.mig.section import Mig
from numaforge.roles.modules.section import Modules
from numaforge.roles.nics.section import NicQueues
from numaforge.roles.rdma.section import Rdma
from numaforge.roles.reboot.section import Maintenance
from numaforge.roles.slices.section import System


class NodeProfile(Section):
    """What an admin wants from a node; everything is optional."""

    name: str = Field(
        default="unnamed", description="The profile's name, which the plan carries.", examples=["h100-train"]
    )
    description: str = Field(
        default="", description="One sentence for people.", examples=["Whole-node training jobs"]
    )
    made_for: MadeFor = Field(
        default=MadeFor(), description="The kind of machine that the values were chosen for."
    )
    cpus: Cpus = Field(default=Cpus(), description="Reserved CPUs.")
    memory: Memory = Field(default=Memory(), description="Reserved memory.")
    hugepages: tuple[Hugepages, ...] = Field(
        default=(), description="Pools of huge pages, one entry per size and place."
    )
    kubelet: Kubelet = Field(default=Kubelet(), description="The kubelet's resource managers.")
    tuning: Tuning = Field(default=Tuning(), description="Kernel settings that change at once.")
    kernel: Kernel = Field(default=Kernel(), description="Kernel settings that only a boot changes.")
    interrupts: Interrupts = Field(
        default=Interrupts(), description="Which CPUs answer the devices: interrupts and received packets."
    )
    nic_queues: NicQueues = Field(
        default=NicQueues(), description="How many queues, and so interrupts, NICs have."
    )
    system: System = Field(default=System(), description="Which CPUs the system's own daemons use.")
    pod_tuning: PodTuning = Field(
        default=PodTuning(), description="What pods may ask of CRI-O for their own CPUs."
    )
    modules: Modules = Field(default=Modules(), description="Kernel modules and their options.")
    device_plugin: DevicePlugin = Field(
        default=DevicePlugin(), description="How NVIDIA's device plugin shares GPUs."
    )
    maintenance: Maintenance = Field(
        default=Maintenance(), description="What numaforge may do to a node to carry out its plan."
    )
    mig: Mig = Field(default=Mig(), description="How GPUs are cut into MIG instances.")
    host: Host = Field(default=Host(), description="Limits, packages, clock and control groups.")
    rdma: Rdma = Field(default=Rdma(), description="RDMA devices, for pods and on the host.")
    sources: dict[str, str] = Field(
        default_factory=dict,
        description="Where values come from, by dotted path; the plan's decisions show it.",
        examples=[{"tuning.sysctls.vm.swappiness": "ticket 4711"}],
    )

    def choice(self, path: str, said: str = "the profile's choice") -> str:
        """Return `said`, the reason for a value that this profile sets, with its source where it has one."""
        source = self.sources.get(path)
        return f"{said} ({source})" if source else said
