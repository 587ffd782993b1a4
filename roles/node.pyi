# Written by `python -m docs.node_types` from ROLES; roles/node.py makes the same types at run time.
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from numaforge.file_content import PlannedFile
from numaforge.reasons import Decision, Notice
from numaforge.roles.allocatable import plan as allocatable_plan
from numaforge.roles.amd_partitions import plan as amd_partitions_plan
from numaforge.roles.amd_partitions import section as amd_partitions_section
from numaforge.roles.capacity import plan as capacity_plan
from numaforge.roles.cpus import plan as cpus_plan
from numaforge.roles.cpus import section as cpus_section
from numaforge.roles.crio import plan as crio_plan
from numaforge.roles.crio import section as crio_section
from numaforge.roles.device_plugin import plan as device_plugin_plan
from numaforge.roles.device_plugin import section as device_plugin_section
from numaforge.roles.devices import plan as devices_plan
from numaforge.roles.dra import plan as dra_plan
from numaforge.roles.dra import section as dra_section
from numaforge.roles.gpu_memory import plan as gpu_memory_plan
from numaforge.roles.gpudirect import plan as gpudirect_plan
from numaforge.roles.host import plan as host_plan
from numaforge.roles.host import section as host_section
from numaforge.roles.hugepages import plan as hugepages_plan
from numaforge.roles.hugepages import section as hugepages_section
from numaforge.roles.imex import plan as imex_plan
from numaforge.roles.imex import section as imex_section
from numaforge.roles.installed import plan as installed_plan
from numaforge.roles.interrupts import plan as interrupts_plan
from numaforge.roles.interrupts import section as interrupts_section
from numaforge.roles.kernel_cmdline import plan as kernel_cmdline_plan
from numaforge.roles.kernel_cmdline import section as kernel_cmdline_section
from numaforge.roles.kernel_values import plan as kernel_values_plan
from numaforge.roles.kernel_values import section as kernel_values_section
from numaforge.roles.kubelet import plan as kubelet_plan
from numaforge.roles.kubelet import section as kubelet_section
from numaforge.roles.labels import plan as labels_plan
from numaforge.roles.largest_pods import plan as largest_pods_plan
from numaforge.roles.machine import plan as machine_plan
from numaforge.roles.made_for import plan as made_for_plan
from numaforge.roles.made_for import section as made_for_section
from numaforge.roles.measure import plan as measure_plan
from numaforge.roles.measure import section as measure_section
from numaforge.roles.memory import plan as memory_plan
from numaforge.roles.memory import section as memory_section
from numaforge.roles.mig import plan as mig_plan
from numaforge.roles.mig import section as mig_section
from numaforge.roles.modules import plan as modules_plan
from numaforge.roles.modules import section as modules_section
from numaforge.roles.nics import plan as nics_plan
from numaforge.roles.nics import section as nics_section
from numaforge.roles.offline import plan as offline_plan
from numaforge.roles.rdma import plan as rdma_plan
from numaforge.roles.rdma import section as rdma_section
from numaforge.roles.rdma_pools import plan as rdma_pools_plan
from numaforge.roles.reboot import section as reboot_section
from numaforge.roles.slices import plan as slices_plan
from numaforge.roles.slices import section as slices_section
from numaforge.roles.watch import plan as watch_plan
from numaforge.roles.watch import section as watch_section
from numaforge.sections.section import Section

class ProfileHead(Section):
    name: str = ...
    description: str = ...
    sources: dict[str, str] = ...
    def choice(self, path: str, said: str = ...) -> str: ...

class NodeProfile(ProfileHead):
    made_for: made_for_section.MadeFor = ...
    gpu_memory: Literal["numa", "driver"] | None = ...
    cpus: cpus_section.Cpus = ...
    memory: memory_section.Memory = ...
    host: host_section.Host = ...
    kernel: kernel_cmdline_section.Kernel = ...
    modules: modules_section.Modules = ...
    maintenance: reboot_section.Maintenance = ...
    measure: measure_section.Measure = ...
    tuning: kernel_values_section.Tuning = ...
    nic_queues: nics_section.NicQueues = ...
    interrupts: interrupts_section.Interrupts = ...
    system: slices_section.System = ...
    hugepages: tuple[hugepages_section.Hugepages, ...] = ...
    mig: mig_section.Mig = ...
    amd_partitions: amd_partitions_section.AmdPartitions = ...
    imex: imex_section.ImexService = ...
    pod_tuning: crio_section.PodTuning = ...
    device_plugin: device_plugin_section.DevicePlugin = ...
    rdma: rdma_section.Rdma = ...
    kubelet: kubelet_section.Kubelet = ...
    dra: dra_section.Dra = ...
    watch: watch_section.Watch = ...

@dataclass(frozen=True, kw_only=True)
class PlanHead:
    hostname: str
    profile: str
    files: tuple[PlannedFile, ...]
    decisions: tuple[Decision, ...]
    notices: tuple[Notice, ...]

@dataclass(frozen=True, kw_only=True)
class NodePlan(
    PlanHead,
    machine_plan.Decided,
    made_for_plan.Decided,
    installed_plan.Decided,
    offline_plan.Decided,
    gpu_memory_plan.Decided,
    cpus_plan.Decided,
    memory_plan.Decided,
    devices_plan.Decided,
    host_plan.Decided,
    kernel_cmdline_plan.Decided,
    modules_plan.Decided,
    measure_plan.Decided,
    gpudirect_plan.Decided,
    kernel_values_plan.Decided,
    nics_plan.Decided,
    interrupts_plan.Decided,
    slices_plan.Decided,
    hugepages_plan.Decided,
    mig_plan.Decided,
    amd_partitions_plan.Decided,
    imex_plan.Decided,
    crio_plan.Decided,
    device_plugin_plan.Decided,
    rdma_pools_plan.Decided,
    rdma_plan.Decided,
    kubelet_plan.Decided,
    dra_plan.Decided,
    largest_pods_plan.Decided,
    capacity_plan.Decided,
    allocatable_plan.Decided,
    labels_plan.Decided,
    watch_plan.Decided,
): ...

class Decisions(NodePlan):
    values: Mapping[str, Any]
    asked_version: str | None
    sysctls: Mapping[str, str]
    @property
    def previous(self) -> NodePlan | None: ...
    @property
    def unreadable(self) -> Notice | None: ...
    def __init__(
        self,
        values: Mapping[str, Any],
        earlier: str | None,
        asked_version: str | None,
        profile: str = ...,
        sysctls: Mapping[str, str] | None = ...,
    ) -> None: ...
