"""A profile as a whole: what an admin wants from a node."""

from __future__ import annotations

from pydantic import Field

from numaforge.profile.cpus import Cpus
from numaforge.profile.device_plugin import DevicePlugin
from numaforge.profile.hugepages import Hugepages
from numaforge.profile.kernel import Kernel
from numaforge.profile.kubelet import Kubelet
from numaforge.profile.maintenance import Maintenance
from numaforge.profile.memory import Memory
from numaforge.profile.mig import Mig
from numaforge.profile.section import Section
from numaforge.profile.tuning import Tuning


class NodeProfile(Section):
    """What an admin wants from a node; everything is optional."""

    name: str = Field(
        default="unnamed", description="The profile's name, which the plan carries.", examples=["h100-train"]
    )
    description: str = Field(
        default="", description="One sentence for people.", examples=["Whole-node training jobs"]
    )
    cpus: Cpus = Field(default=Cpus(), description="Reserved CPUs.")
    memory: Memory = Field(default=Memory(), description="Reserved memory.")
    hugepages: tuple[Hugepages, ...] = Field(
        default=(), description="Pools of huge pages, one entry per size and place."
    )
    kubelet: Kubelet = Field(default=Kubelet(), description="The kubelet's resource managers.")
    tuning: Tuning = Field(default=Tuning(), description="Kernel settings that change at once.")
    kernel: Kernel = Field(default=Kernel(), description="Kernel settings that only a boot changes.")
    device_plugin: DevicePlugin = Field(
        default=DevicePlugin(), description="How NVIDIA's device plugin shares GPUs."
    )
    maintenance: Maintenance = Field(
        default=Maintenance(), description="What numaforge may do to a node to carry out its plan."
    )
    mig: Mig = Field(default=Mig(), description="How GPUs are cut into MIG instances.")
    sources: dict[str, str] = Field(
        default_factory=dict,
        description="Where values come from, by dotted path; the plan's decisions show it.",
        examples=[{"tuning.sysctls.vm.swappiness": "ticket 4711"}],
    )

    def choice(self, path: str, said: str = "the profile's choice") -> str:
        """Return `said`, the reason for a value that this profile sets, with its source where it has one."""
        source = self.sources.get(path)
        return f"{said} ({source})" if source else said
