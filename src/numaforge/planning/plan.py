"""A node's plan, role by role: everything that was decided for one host."""

from dataclasses import dataclass, field

from numaforge import __version__
from numaforge.lib.codec import ByName, KnownKeysOnly
from numaforge.lib.file_content import PlannedFile
from numaforge.lib.reasons import Decision, Notice
from numaforge.planning.capacity import PredictedAllocatable
from numaforge.planning.measure import MeasurePlan
from numaforge.roles.amd_partitions.instance import AmdPartitionsPlan
from numaforge.roles.cpus.plan import CpuPlan
from numaforge.roles.cpus.slices.plan import SystemPlan
from numaforge.roles.crio.plan import PodTuningPlan
from numaforge.roles.device_plugin.plan import DevicePluginPlan
from numaforge.roles.dra.plan import DraPlan
from numaforge.roles.gpudirect.plan import AcsPlan
from numaforge.roles.host.plan import HostPlan
from numaforge.roles.hugepages.plan import HugepagesPlan
from numaforge.roles.imex.plan import ImexPlan
from numaforge.roles.interrupts.plan import InterruptsPlan
from numaforge.roles.kernel_cmdline.plan import KernelPlan
from numaforge.roles.kernel_values.plan import TuningPlan
from numaforge.roles.kubelet.delivery import KubeletPlan
from numaforge.roles.kubelet.largest_pods import LargestPod
from numaforge.roles.memory.plan import MemoryPlan
from numaforge.roles.mig.instance import MigPlan
from numaforge.roles.modules.gpu_memory import GpuMemoryPlan
from numaforge.roles.modules.plan import ModulesPlan
from numaforge.roles.rdma.planned import RdmaPlan
from numaforge.roles.watch.plan import WatchPlan


@dataclass(frozen=True, kw_only=True)
class NodePlan(KnownKeysOnly):  # and so is all that it holds
    """Everything decided for one host; templates and verification read nothing else."""

    # Not a decision: a host whose plan stays as it is keeps the name of the version that wrote it.
    written_by: str = field(default_factory=f"numaforge {__version__}".__str__, compare=False)
    hostname: str
    profile: str
    files: tuple[PlannedFile, ...]
    decisions: tuple[Decision, ...]
    notices: tuple[Notice, ...]
    gpu_memory: GpuMemoryPlan = GpuMemoryPlan()
    cpus: CpuPlan
    memory: MemoryPlan
    host: HostPlan = HostPlan()
    kernel: KernelPlan = KernelPlan()
    modules: ModulesPlan = ModulesPlan()
    measure: MeasurePlan | None = None  # None: a node goes back into service without any
    tuning: TuningPlan = TuningPlan()
    interrupts: InterruptsPlan = InterruptsPlan()
    system: SystemPlan = SystemPlan()
    hugepages: HugepagesPlan = HugepagesPlan()
    mig: MigPlan = MigPlan()
    amd_partitions: AmdPartitionsPlan = AmdPartitionsPlan()
    imex: ImexPlan = ImexPlan()
    pod_tuning: PodTuningPlan = PodTuningPlan()
    device_plugin: DevicePluginPlan | None = None
    acs: AcsPlan = AcsPlan()
    rdma: RdmaPlan = RdmaPlan()
    kubelet: KubeletPlan | None  # None where the host has none and no version was named
    dra: DraPlan | None = None
    largest_pods: tuple[LargestPod, ...] = ()
    allocatable: PredictedAllocatable | None = None  # None where the memory is not known
    labels: ByName[str] = field(default_factory=dict)
    watch: WatchPlan | None = None
