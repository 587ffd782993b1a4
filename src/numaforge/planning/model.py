"""The plan: everything that was decided for one host, with the reason for each decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from numaforge.codec import NOTHING_ELSE, ByCpu, ByName, CpuSet
from numaforge.quantity import format_bytes, format_millis

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


@dataclass(frozen=True)
class CpuPlan:
    """Which CPUs workloads never get. `reserved` and `allocatable` partition `online`."""

    online: CpuSet
    reserved: CpuSet
    allocatable: CpuSet


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
    `delivery` is "drop-in" (a file in `config_dir`) or "merge" (into `config_file`). `exec_start` is the
    unit's ExecStart with --config-dir added, or None where the flag is already there or not needed.
    `root_dir` holds the state files. `retired` has the shape of `settings`: what an earlier plan merged into
    `config_file` and this one does not want there; each value is to be removed while the file still has it.
    `binary` says which file was `binary_version` when this was planned, so that it need not be started to
    be asked again.
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
class TuningPlan:
    """Kernel settings; empty means "left as it is". What the host lacks is named in the plan's notices.

    `raised_sysctls` are the least that each limit is to be: a host that has more keeps it, now and at boot.
    """

    governors: ByCpu = field(default_factory=dict)  # by CPU
    energy_preferences: ByCpu = field(default_factory=dict)  # by CPU
    sysctls: ByName[str] = field(default_factory=dict)
    raised_sysctls: ByName[str] = field(default_factory=dict)
    transparent_hugepages: ByName[str] = field(default_factory=dict)  # "enabled", "defrag" -> value
    swap_off: bool = False


@dataclass(frozen=True)
class KernelPlan:
    """What only a boot brings: parameters that the kernel's command line is to have, all others kept.

    `reboot` is "allowed" or "never": then what is missing is reported, and nothing is written.
    """

    cmdline: tuple[str, ...] = ()
    reboot: str = "never"


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
    changes their mode, and none is allowed.
    """

    gpus: tuple[MigGpu, ...] = ()
    managed_by: str = "numaforge"
    strategy: str = "mixed"  # "mixed", "single", "none"
    label: str | None = None  # "mig-enabled", "mig-disabled"
    pending: tuple[MigGpu, ...] = ()


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
class PlannedFile:
    """A file that numaforge writes on the host: which role, from which template, with which mode (octal)."""

    path: str
    role: str  # "topology", "tuning", "hugepages", "mig", "kubelet"
    template: (
        str | None
    )  # below templates/, e.g. "kubelet/drop-in.conf.j2"; None: the role writes it from the plan
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"


@dataclass(frozen=True)
class PredictedAllocatable:
    """The node's predicted Allocatable: CPUs in millicores, memory in bytes, extended resources in units."""

    cpu_millis: int
    memory_bytes: int
    hugepages_bytes: ByName[int] = field(default_factory=dict)  # "2Mi" -> bytes
    devices: ByName[int] = field(default_factory=dict)  # "nvidia.com/gpu" -> 8, where it can be predicted

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
    kernel: KernelPlan = KernelPlan()
    mig: MigPlan = MigPlan()
    device_plugin: DevicePluginPlan | None = None  # None: the profile says nothing of it
    labels: ByName[str] = field(default_factory=dict)  # that the roll-out sets on the Node
