"""The plan: everything that was decided for one host, with the reason for each decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from numaforge.codec import NOTHING_ELSE, ByCpu, ByName, CpuSet
from numaforge.quantity import format_bytes, format_millis
from numaforge.topology.model import Core, L3Cache

PLAN_PATH = "/etc/numaforge/plan.json"

Decided = TypeVar("Decided")


@dataclass(frozen=True)
class Decision:
    """One thing that was decided: `subject` is a dotted path such as "kubelet.topologyManagerPolicy"."""

    subject: str
    value: str
    reason: str


@dataclass(frozen=True)
class Notice:
    """Something the admin should know although the plan stands; `id` is stable ("uneven-smt")."""

    id: str
    message: str


@dataclass(frozen=True)
class Reasoned(Generic[Decided]):
    """One part of the plan with the reasons for it."""

    value: Decided
    decisions: tuple[Decision, ...] = ()
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class NumaNodePlan:
    """One NUMA node after planning; memory in bytes, `reserved_memory_bytes` its share of reservedMemory."""

    id: int
    cpus: CpuSet
    reserved_cpus: CpuSet
    memory_bytes: int
    reserved_memory_bytes: int
    hugepages: ByName[int]  # wanted pages by size: {"2Mi": 512}
    allocatable_memory_bytes: int  # for pods, ordinary pages, as the static memory manager counts it
    other_hugepages: ByName[int] = field(default_factory=dict)  # pages that are there and left as they are


@dataclass(frozen=True)
class CpuPlan:
    """Which CPUs workloads never get. `reserved` and `allocatable` partition `online`.

    `chosen_by` is "profile", "kubelet" (its settings), "default" or "default-avoiding-devices".
    """

    online: CpuSet
    reserved: CpuSet
    allocatable: CpuSet
    chosen_by: str = "profile"


@dataclass(frozen=True)
class MemoryPlan:
    """Node-wide memory in bytes; the sum of the NUMA nodes' shares equals the three reservations exactly."""

    capacity_bytes: int
    kube_reserved_bytes: int
    system_reserved_bytes: int
    eviction_hard_bytes: int


@dataclass(frozen=True)
class KubeletPlan:
    """What the kubelet is to run with, and how that reaches it.

    `settings` is the part of a KubeletConfiguration that numaforge manages, with Kubernetes' own field names.
    `delivery` is "drop-in" (a file in `config_dir`), "merge" (into `config_file`), or "none": then nothing is
    set, and the `drop_in` of an earlier run goes. `exec_start` is the unit's ExecStart with --config-dir
    added, or None where the flag is already there or not needed. `root_dir` holds the state files. `retired`
    has the shape of `settings`: what an earlier plan merged into `config_file` and this one does not want
    there; each value is to be removed while the file still has it. `binary` says which file was
    `binary_version` when this was planned, so that it need not be started to be asked again.
    """

    version: str
    unit: str
    delivery: str
    settings: ByName[Any]
    config_file: str
    config_dir: str | None
    drop_in: str | None
    exec_start: str | None
    root_dir: str
    retired: ByName[Any] = field(default_factory=dict)
    binary: str | None = None
    binary_version: str | None = None


@dataclass(frozen=True)
class IdleStateOff:
    """A sleep state that is switched off on these CPUs; `index` is the kernel's number of it."""

    index: int
    cpus: CpuSet


@dataclass(frozen=True)
class OfflinePlan:
    """CPUs that are to be offline; `taken` are those of them that are so by this plan alone.

    `cores` and `caches` are those that hold taken CPUs, as they were with them: what the kernel does not show
    of a CPU that is offline.
    """

    cpus: CpuSet = frozenset()
    taken: CpuSet = frozenset()
    cores: tuple[Core, ...] = ()
    caches: tuple[L3Cache, ...] = ()


@dataclass(frozen=True)
class TuningPlan:
    """Kernel settings; empty means "left as it is". What the host lacks is named in the plan's notices.

    `raised_sysctls` are the least that each limit is to be: a host that has more keeps it, now and at boot.
    """

    governors: ByCpu = field(default_factory=dict)  # by CPU
    energy_preferences: ByCpu = field(default_factory=dict)  # by CPU
    sysctls: ByName[str] = field(default_factory=dict)
    raised_sysctls: ByName[str] = field(default_factory=dict)
    transparent_hugepages: ByName[str] = field(
        default_factory=dict
    )  # "enabled", "khugepaged/defrag" -> value
    swap_off: bool = False
    idle_states_off: tuple[IdleStateOff, ...] = ()
    turbo: ByName[str] = field(default_factory=dict)  # "intel_pstate/no_turbo", "cpufreq/boost" -> value
    ksm: str | None = None  # "0", "1"
    values: ByName[str] = field(default_factory=dict)  # of knobs that have no field of their own, by path
    offline: OfflinePlan = OfflinePlan()


@dataclass(frozen=True)
class KernelPlan:
    """What only a boot brings: parameters that the kernel's command line is to have, all others kept.

    `reboot` is "allowed" or "never": then what is missing is reported, and nothing is written. `next_kernel`
    is "running" where a reboot may start no other kernel, else "any".
    """

    cmdline: tuple[str, ...] = ()
    reboot: str = "never"
    next_kernel: str = "running"


@dataclass(frozen=True)
class InterruptsPlan:
    """Which CPUs answer the devices; an empty set, or a device that is not named, is left as it is.

    `devices` are by PCI address: the numbers of interrupts change with every boot and driver reload. Of
    `rps`, by interface, an empty set turns receive packet steering off. `banned` are the CPUs that irqbalance
    does not use, offline ones included.
    """

    devices: ByName[CpuSet] = field(default_factory=dict)
    rps: ByName[CpuSet] = field(default_factory=dict)
    default_affinity: CpuSet = frozenset()
    workqueues: CpuSet = frozenset()
    irqbalance: str | None = None  # "reserved", "off"
    banned: CpuSet = frozenset()


@dataclass(frozen=True)
class SystemPlan:
    """Which CPUs the system's own daemons use, by systemd's slice or scope."""

    slices: ByName[CpuSet] = field(default_factory=dict)


@dataclass(frozen=True)
class MigInstance:
    """A GPU instance that is to be: its profile and where it lies, in memory slices.

    `compute_instances` are the compute slices of each of its compute instances.
    """

    profile: str  # "3g.40gb"
    profile_id: int  # NVML's
    start: int
    size: int
    compute_instances: tuple[int, ...]


@dataclass(frozen=True)
class MigGpu:
    """How one GPU is to be cut."""

    pci_address: str
    uuid: str | None
    mode: str  # "enabled", "disabled"
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True)
class MigPlan:
    """How the GPUs of a node are to be cut; GPUs that are not named stay as they are.

    `managed_by` carries it out: "numaforge", "gpu-operator" (its MIG manager is handed the same), or
    "dra-driver": then the mode alone is numaforge's, and the GPU instances are left to that driver.
    `strategy` is the device plugin's migStrategy. `label` is what the node is to be labelled, if anything.
    `pending` are GPUs as they were asked for that stay as they are, and are not among `gpus`: only a reboot
    changes their mode, and none is allowed. `may_stop` are units that may be stopped for a change beside
    those that held a GPU when the node was looked at.
    """

    gpus: tuple[MigGpu, ...] = ()
    managed_by: str = "numaforge"
    strategy: str = "mixed"  # "mixed", "single", "none"
    label: str | None = None  # "mig-enabled", "mig-disabled"
    pending: tuple[MigGpu, ...] = ()
    may_stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class DevicePluginPlan:
    """What NVIDIA's device plugin is to do; `replicas` are by resource: each device so many times.

    `config` is its key in the plugin's ConfigMap. `advertised` is what comes of it, in devices.
    """

    mig_strategy: str  # "none", "single", "mixed"
    sharing: str = "none"  # "time-slicing", "mps"
    replicas: ByName[int] = field(default_factory=dict)
    renamed: bool = False  # shared devices are nvidia.com/gpu.shared
    one_per_pod: bool | None = None
    config: str | None = None
    advertised: ByName[int] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuRail:
    """The RDMA ports of one GPU: those of no other device are nearer."""

    gpu: str  # "GPU0"
    pci_address: str
    ports: tuple[str, ...]  # "mlx5_0:1"


@dataclass(frozen=True)
class HiddenSwitch:
    """A PCIe switch that a virtual machine does not see, for NCCL's topology file.

    `pci_address` is one that no device has; `speed` in GT/s, `width` in lanes, None where they are not known.
    """

    pci_address: str
    numa_node: int
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    speed: int | None = None
    width: int | None = None


@dataclass(frozen=True)
class LibrariesPlan:
    """What NCCL, UCX, NVSHMEM and vLLM are told of the rails.

    `ports` are all that are used, in rail order. `nccl` are NCCL's settings on the network of the host,
    `variables` those of the other libraries; for pods of the overlay and for single GPUs they are derived
    (`planning/rdma/environment.py`). `admin_conf` is the text of an /etc/nccl.conf that is not ours: it stays
    below our lines while we write that file, and is put back when we do not any more.
    """

    network: str = "host"  # or "overlay"
    overlay_interface: str = "eth0"
    ports: tuple[str, ...] = ()  # "mlx5_0:1"
    gpus: tuple[GpuRail, ...] = ()
    nccl: ByName[str] = field(default_factory=dict)
    variables: ByName[str] = field(default_factory=dict)
    hidden_switches: tuple[HiddenSwitch, ...] = ()
    nccl_conf: bool = False
    env_file: bool = False
    admin_conf: str | None = None


@dataclass(frozen=True)
class HostPlan:
    """The userland; empty means "left as it is".

    `limits` are "unlimited", a number ("nofile", "nproc") or bytes, by their PAM names; `limited_units` get
    theirs when they start next. `holds` are the packages that stay at their version, whether or not something
    else held them before; `package_manager` ("apt", "dnf", "zypper") does it. `swap_services` are kept from
    making swap at boot.
    """

    limits: ByName[str] = field(default_factory=dict)
    limited_units: tuple[str, ...] = ()
    hold_kinds: tuple[str, ...] = ()  # "kernel", "driver", "kubelet", "containerd"
    holds: tuple[str, ...] = ()
    package_manager: str | None = None
    swap_off: bool = False
    swap_services: tuple[str, ...] = ()  # "zramswap.service"
    time_sync: bool = False
    cgroup: int | None = None  # 2: required


@dataclass(frozen=True)
class PodTuningPlan:
    """What pods of a runtime class may ask of CRI-O for their own CPUs.

    Without `annotations` nothing is written. `irqbalance_file` is irqbalance's configuration where it is not
    at CRI-O's default place.
    """

    annotations: tuple[str, ...] = ()  # "cpu-quota.crio.io"
    runtime_class: str = "high-performance"
    irqbalance_file: str | None = None


@dataclass(frozen=True)
class RdmaPool:
    """One resource of the shared RDMA device plugin: `tokens` containers at most share all of its devices.

    `selectors` are the plugin's own, and choose the PCI functions at `pci_addresses` and no others. `gpus`
    are the PCI addresses of the GPUs to which its devices are nearest.
    """

    resource: str  # "rdma/rail0"
    tokens: int
    devices: tuple[str, ...]  # RDMA devices: "mlx5_0"
    pci_addresses: tuple[str, ...]
    selectors: ByName[tuple[str, ...]]  # {"ifNames": ["ibs1"]}
    numa_node: int | None = None  # None: not known, or several
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModulesPlan:
    """Kernel modules to load, in that order, options by module, and modules that nothing may load."""

    load: tuple[str, ...] = ()
    options: ByName[tuple[str, ...]] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()


@dataclass(frozen=True)
class NicSetting:
    """A setting of a NIC that does not outlive a boot.

    `nic` is the PCI address for "max_read_request" (bytes), the interface for "trust" ("dscp", "pcp"), "pfc"
    (the priorities: "3,4", or "none") and "channels" (how many combined ones).
    """

    nic: str
    name: str
    value: str


@dataclass(frozen=True)
class RdmaGate:
    """What the kubelet waits for at boot: RDMA devices, and how many virtual functions of a PCI address."""

    devices: tuple[str, ...] = ()
    virtual_functions: ByName[int] = field(default_factory=dict)
    seconds: int = 120


@dataclass(frozen=True)
class RdmaHostPlan:
    """What RDMA needs of the host; empty means "left as it is".

    `memlock_units` are to run without a limit on pinned memory. `character_devices` are the kinds ("uverbs",
    "umad") that each RDMA device must have below /dev/infiniband.
    """

    netns: str | None = None  # "shared", "exclusive"
    memlock_units: tuple[str, ...] = ()
    nics: tuple[NicSetting, ...] = ()
    gate: RdmaGate | None = None
    character_devices: ByName[tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class AcsPlan:
    """PCIe access control that the kernel sets at boot: the mask of each bridge, by PCI address.

    A mask has the bits 6 to 0 as `pci=config_acs=` does: 1, 0, or x for unchanged. `bridges` are vendor and
    device of each, by which a changed PCI address is known.
    """

    masks: ByName[str] = field(default_factory=dict)
    bridges: ByName[str] = field(default_factory=dict)


@dataclass(frozen=True)
class RdmaPlan:
    """RDMA on one node: what each of its four concerns decided.

    `pools_deployed` says that the shared device plugin serves this node with `pools`.
    """

    pools: tuple[RdmaPool, ...] = ()
    pools_deployed: bool = False

    libraries: LibrariesPlan = LibrariesPlan()

    host: RdmaHostPlan = RdmaHostPlan()

    acs: AcsPlan = AcsPlan()


@dataclass(frozen=True)
class PlannedFile:
    """A file that numaforge writes on the host: which role, from which template, with which mode (octal).

    One that `waits` counts at a boot only, and the profile does not allow that boot: of it is written what
    needs none.
    """

    path: str
    role: str  # the role that writes it: "topology", "tuning", "host"
    template: (
        str | None
    )  # below templates/, e.g. "kubelet/drop-in.conf.j2"; None: the role writes it from the plan
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
    waits: bool = False


@dataclass(frozen=True)
class PredictedAllocatable:
    """The node's predicted Allocatable: CPUs in millicores, memory in bytes, extended resources in units."""

    cpu_millis: int
    memory_bytes: int
    hugepages_bytes: ByName[int] = field(default_factory=dict)  # "2Mi" -> bytes
    devices: ByName[int] = field(default_factory=dict)  # "nvidia.com/gpu" -> 8, where it can be predicted
    gpu_memory_bytes: int = 0  # of memory_bytes: memory of GPUs that are NUMA nodes of their own (Grace)

    @property
    def quantities(self) -> dict[str, str]:
        """The same as the API has it: Kubernetes quantities by resource name."""
        return {
            "cpu": format_millis(self.cpu_millis),
            "memory": format_bytes(self.memory_bytes),
            **{f"hugepages-{size}": format_bytes(n) for size, n in sorted(self.hugepages_bytes.items())},
            **{name: str(count) for name, count in sorted(self.devices.items())},
        }


@dataclass(frozen=True)
class ElsewhereReserved:
    """What another maker of nodes reserves on such a machine, its eviction threshold apart."""

    name: str  # "GKE"
    cpu_millis: int
    memory_bytes: int
    source: str


@dataclass(frozen=True)
class LargestPod:
    """The largest Guaranteed pod of one container that the empty node admits with so many devices.

    Largest is the one with the most CPUs, then memory, then huge pages, in bytes by size. `resource` is ""
    for a node without devices; `cpus` is 0 where no pod with so many devices is admitted.
    """

    resource: str  # "nvidia.com/gpu"
    devices: int
    cpus: int
    memory_bytes: int
    hugepages_bytes: ByName[int] = field(default_factory=dict)  # "1Gi" -> bytes


@dataclass(frozen=True)
class NodePlan:
    """Everything decided for one host; roles, templates and the verification suite read nothing else."""

    __pydantic_config__ = NOTHING_ELSE  # and so for what it holds

    hostname: str
    profile: str
    cpus: CpuPlan
    memory: MemoryPlan
    numa_nodes: tuple[NumaNodePlan, ...]
    tuning: TuningPlan
    kubelet: KubeletPlan | None  # None: no kubelet on the host and none was named
    files: tuple[PlannedFile, ...]
    allocatable: PredictedAllocatable | None
    decisions: tuple[Decision, ...]
    notices: tuple[Notice, ...]
    largest_pods: tuple[LargestPod, ...] = ()
    elsewhere: tuple[ElsewhereReserved, ...] = ()
    hugepages: ByName[int] = field(
        default_factory=dict
    )  # the machine's own pools: a kernel without NUMA nodes
    kernel: KernelPlan = KernelPlan()
    interrupts: InterruptsPlan = InterruptsPlan()
    system: SystemPlan = SystemPlan()
    pod_tuning: PodTuningPlan = PodTuningPlan()
    modules: ModulesPlan = ModulesPlan()
    mig: MigPlan = MigPlan()
    device_plugin: DevicePluginPlan | None = None  # None: the profile says nothing of it
    rdma: RdmaPlan = RdmaPlan()
    host: HostPlan = HostPlan()
    labels: ByName[str] = field(default_factory=dict)  # that the roll-out sets on the Node
