"""The model: one machine as frozen data, with everything unknown kept as None."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from numaforge.lib.codec import ByCpu, CpuSet, KnownKeysOnly
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.lib.unfinished import Unfinished


@dataclass(frozen=True)
class Package:
    """A socket. `id` is the kernel's physical_package_id, or a running number where the kernel exports -1."""

    id: int
    cpus: CpuSet


@dataclass(frozen=True)
class HugepagePool:
    """Pages of one size on one NUMA node, in pages."""

    total: int
    free: int

    def of(self, total: int) -> Self:
        """Return the pool with this number of pages, all of them free."""
        return replace(self, total=total, free=total)


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node; `cpus` holds online CPUs only and is empty for a memory-only node.

    `generic_initiator`: firmware reserves it for a device that accesses memory by itself, as the GPUs of
    Grace do (ACPI SRAT, Generic Initiator Affinity); None where the kernel is older than 5.10.
    """

    id: int
    cpus: CpuSet
    memory_bytes: int | None
    distances: Mapping[int, int]
    hugepages: Mapping[str, HugepagePool]  # by Kubernetes' size suffix: "2Mi", "1Gi", "64Ki"
    generic_initiator: bool | None = None


@dataclass(frozen=True)
class Core:
    """A physical core: its online threads, and where it is (package id, NUMA node id)."""

    package: int
    numa_node: int | None
    cpus: CpuSet


@dataclass(frozen=True)
class L3Cache:
    """CPUs that share one last-level cache, and its size in bytes; `level` is not 3 where there is no L3."""

    cpus: CpuSet
    size_bytes: int | None
    level: int = 3


@dataclass(frozen=True)
class CoreCaches:
    """All caches of one kind and size above the last level: how many there are, and which CPUs have one."""

    level: int
    kind: str  # the kernel's word: "Data", "Instruction", "Unified"
    size_bytes: int | None
    count: int
    cpus: CpuSet


@dataclass(frozen=True)
class Cpufreq:
    """Frequency scaling: the governor of each CPU now, and its energy_performance_preference, if any.

    The available ones are those that every CPU accepts.
    """

    driver: str | None
    governors: ByCpu
    available: tuple[str, ...]
    energy_preferences: ByCpu = field(default_factory=dict)
    available_energy_preferences: tuple[str, ...] = ()


@dataclass(frozen=True)
class IdleState(KnownKeysOnly):
    """A sleep state of idle CPUs: the kernel's `index`, and the time in microseconds to wake from it."""

    index: int
    name: str | None  # "C1E", "C6"
    latency_us: int
    cpus: CpuSet


@dataclass(frozen=True)
class PciLink(KnownKeysOnly):
    """A PCIe link: speeds in GT/s, widths in lanes."""

    speed: float | None
    width: int | None
    max_speed: float | None
    max_width: int | None


@dataclass(frozen=True)
class GpuPartition(KnownKeysOnly):
    """How the amdgpu driver has partitioned a GPU; None where it does not report it, as during a reset.

    `compute` is one of SPX, DPX, TPX, QPX and CPX (1, 2, 3, 4 partitions, one per compute die), `memory` is
    NPS1, NPS2, NPS4 or NPS8. The available modes are those that this GPU can be switched to. `count` is the
    number of partitions in the kernel's KFD, `memory_bytes` the memory of each; None where they differ.
    `memory_of` are the memory modes that the driver allows with a compute mode: it reports one at a time.
    `named` is the prefix of the kernel's names for their devices, "amdgpu_xcp_" or "amdgpu_xcp.".
    """

    compute: str | None
    memory: str | None
    available_compute: tuple[str, ...] = ()
    available_memory: tuple[str, ...] = ()
    count: int | None = None
    memory_bytes: int | None = None
    memory_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: str | None = None


@dataclass(frozen=True)
class ComputeInstance(KnownKeysOnly):
    """A compute instance of a GPU instance; `uuid` is the UUID of its MIG device ("MIG-...")."""

    id: int
    slices: int | None
    uuid: str | None = None


@dataclass(frozen=True)
class GpuInstance(KnownKeysOnly):
    """A GPU instance that exists: NVML's ids, where it lies in memory slices, and the processes in it."""

    id: int
    profile_id: int  # as `nvidia-smi mig -lgip` shows it: 19, not NVML's enumeration
    start: int
    size: int
    compute_instances: tuple[ComputeInstance, ...] = ()
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class MigProfileOffer(KnownKeysOnly):
    """A profile that NVML offers on a GPU; `starts` are its possible placements, in memory slices."""

    id: int
    name: str | None
    slices: int
    limit: int
    memory_bytes: int | None
    size: int | None
    starts: tuple[int, ...] = ()


@dataclass(frozen=True)
class MigDevice(KnownKeysOnly):
    """A MIG device as any user may list it: the ids of its two instances, and its UUID ("MIG-...")."""

    gpu_instance: int
    compute_instance: int
    uuid: str | None


@dataclass(frozen=True)
class Ecc(KnownKeysOnly):
    """Error correction now and after a reset, and uncorrected errors since the driver was loaded and ever."""

    enabled: bool | None
    pending: bool | None
    uncorrected_volatile: int | None = None
    uncorrected_aggregate: int | None = None


@dataclass(frozen=True)
class RasErrors(KnownKeysOnly):
    """Error counts of a block of an AMD GPU since its driver was loaded; "umc" is its memory."""

    block: str  # "umc", "gfx", "sdma", "xgmi_wafl"
    uncorrected: int
    corrected: int


@dataclass(frozen=True)
class RemappedRows(KnownKeysOnly):
    """Rows of memory that were replaced; `pending` waits for a reset, `failed` is a board to return."""

    correctable: int | None
    uncorrectable: int | None
    pending: bool | None
    failed: bool | None


@dataclass(frozen=True)
class FabricState(KnownKeysOnly):
    """A GPU's registration with its NVLink fabric: sound is "completed", "Success" and no fault.

    `status` is NVML's word for the result, `faults` are from its health; each is None where not reported.
    """

    state: str  # "not-started", "in-progress", "completed"
    status: str | None = None
    faults: tuple[str, ...] | None = None  # "degraded bandwidth", "incorrect configuration: no partition"


@dataclass(frozen=True)
class Gpu(KnownKeysOnly):
    """A GPU by PCI address; what only NVML knows is None without it. `vendor` and `device` are hex digits.

    `index` is NVML's (PCI order), `minor` that of /dev/nvidiaN. `gpu_instances` is None where unknown.
    """

    pci_address: str
    vendor: str
    device: str
    numa_node: int | None
    uuid: str | None = None
    name: str | None = None
    memory_bytes: int | None = None
    mig_capable: bool | None = None
    mig_mode: str | None = None  # "enabled", "disabled"
    link: PciLink | None = None  # a GPU at rest lowers it by itself
    nvlinks: int | None = None  # active links
    fabric: str | None = None  # "<cluster uuid>.<clique id>"
    driver: str | None = None  # the kernel driver bound to it: "nvidia", "vfio-pci"
    partition: GpuPartition | None = None  # AMD's
    xgmi_hive: str | None = None  # AMD's name for the GPUs that XGMI joins
    index: int | None = None
    minor: int | None = None  # follows the order of an earlier probe
    mig_pending: str | None = None  # `mig_mode` after a reset or a reboot
    gpu_instances: tuple[GpuInstance, ...] | None = None
    mig_profiles: tuple[MigProfileOffer, ...] = ()
    pids: tuple[int, ...] = ()  # processes that use it, including those in its GPU instances
    nvlink_peers: Mapping[str, int] = field(
        default_factory=dict
    )  # by PCI address, "switch", "npu", "unknown"
    memory_numa_node: int | None = None  # where its own memory is a NUMA node (Grace)
    virtualization: str | None = None  # "none", "passthrough", "vgpu", "host-vgpu", "host-vsga"
    unanswered: str | None = None  # why NVML gave no answer: "GPU is lost"
    subsystem: str | None = None  # vendor and device of the board, "10de:16c1"
    architecture: str | None = None  # "ampere", "hopper"
    compute_capability: str | None = None  # "9.0"
    persistence: bool | None = None
    ecc: Ecc | None = None
    remapped_rows: RemappedRows | None = None
    recovery_action: str | None = None  # the driver asks for "none", "reset", "reboot", "drain-and-reset"
    fabric_state: FabricState | None = None
    driver_link: PciLink | None = None  # as NVML sees it: the maximum is what GPU and slot reach together
    addressing_mode: str | None = None  # "none", "hmm", "ats"
    gsp_firmware: str | None = None
    max_mig_devices: int | None = None
    bar1_bytes: int | None = None  # the window through which PCIe peers reach its memory
    mig_devices: tuple[MigDevice, ...] = ()  # in NVML's order, without its holes
    vbios: str | None = None  # version of the board's firmware: "96.00.5E.00.01"
    ras: tuple[RasErrors, ...] = ()  # AMD's; only the blocks that the driver reports


@dataclass(frozen=True)
class Nic(KnownKeysOnly):
    """A network device with a PCI function; `rdma_device` is its name below /sys/class/infiniband."""

    pci_address: str
    interface: str | None
    rdma_device: str | None
    link_layer: str | None  # "InfiniBand", "Ethernet"
    rate: str | None  # as the kernel prints it: "400 Gb/sec (4X NDR)", or "25000 Mb/s"
    driver: str | None
    numa_node: int | None


@dataclass(frozen=True)
class Nvme(KnownKeysOnly):
    """An NVMe controller: PCI class 0x0108."""

    pci_address: str
    driver: str | None
    numa_node: int | None


@dataclass(frozen=True)
class PciDevice(KnownKeysOnly):
    """Another PCI function than GPUs, accelerators, NICs, NVMe controllers, and what a chipset itself has."""

    pci_address: str
    pci_class: str  # base class and class in hex digits: "0106"
    vendor: str
    device: str
    driver: str | None
    numa_node: int | None


@dataclass(frozen=True)
class RdmaPort(KnownKeysOnly):
    """One port of an RDMA device, as the kernel words it."""

    number: int
    link_layer: str | None  # "InfiniBand", "Ethernet"
    state: str | None  # "ACTIVE", "DOWN"
    rate: str | None  # "400 Gb/sec (4X NDR)"


@dataclass(frozen=True)
class RdmaDevice(KnownKeysOnly):
    """A device below /sys/class/infiniband.

    `pci_address` is that of its function, None for a software device (rxe, siw), which takes its NUMA node
    from its interface. `management` marks what carries no traffic of workloads: the NVSwitches of an HGX
    B200 show themselves as RDMA devices; None where its vital product data were not readable. Of a virtual
    function `physical_function` is the PCI address it belongs to. Where one device serves both ports of a
    bond, `interface` is that of its own function.
    """

    name: str  # "mlx5_0"
    pci_address: str | None
    interface: str | None
    driver: str | None
    numa_node: int | None
    ports: tuple[RdmaPort, ...] = ()
    character_devices: tuple[str, ...] = ()  # "uverbs0", "umad0", "issm0"
    management: bool | None = False
    physical_function: str | None = None
    virtual_functions: int | None = None  # how many it has now
    max_virtual_functions: int | None = None
    vendor: str | None = None  # hex digits, as of `Gpu`: "15b3"
    device: str | None = None  # "1021"
    node_type: str | None = None  # "CA", "RNIC" (iWARP)
    firmware: str | None = None  # "28.39.1002"
    board: str | None = None  # the maker's name of the board with its firmware settings: "NVD0000000033"
    bond: str | None = None  # "bond0"
    bond_interfaces: tuple[str, ...] = ()
    mtu: int | None = None  # of the interface, in bytes
    operstate: str | None = None  # of the interface: "up", "down"
    data_direct: str | None = (
        None  # PCI function of a ConnectX-8 beside Grace that writes into a GPU's memory
    )


@dataclass(frozen=True)
class Network(KnownKeysOnly):
    """An IPv4 network that an interface is in ("10.0.0.0/16"); "0.0.0.0/0" is the default route."""

    interface: str
    network: str


@dataclass(frozen=True)
class AccessControl(KnownKeysOnly):
    """PCIe access control (ACS) as bits 0 to 6: what a function can do, and what is on; None without it.

    Source validation, translation blocking, request redirect, completion redirect, upstream forwarding,
    egress control, direct translated peer-to-peer (PCIe base specification, ACS extended capability).
    """

    capable: int | None
    control: int | None


@dataclass(frozen=True)
class PciFunction(KnownKeysOnly):
    """A function on the way between GPUs and NICs: one of both, or a bridge above them.

    `path` leads from its root down to itself. `access_control` and `address_translation` (whether it has
    ATS) are None where its configuration space was not read; `card` is equal for functions that share one,
    where that matters.
    """

    pci_address: str
    pci_class: str  # "060400"
    vendor: str
    device: str
    numa_node: int | None = None
    link: PciLink | None = None
    access_control: AccessControl | None = None
    address_translation: bool | None = None
    iommu_group: int | None = None
    iommu_domain: str | None = None  # "identity", "DMA", "DMA-FQ"
    card: str | None = None
    path: tuple[str, ...] = ()
    max_read_request: int | None = None  # in bytes, as configured: the largest read request
    max_payload: int | None = None  # in bytes, as configured: the largest packet


@dataclass(frozen=True)
class PeerMemory(KnownKeysOnly):
    """How NICs may reach the memory of GPUs on this host; None where unknown.

    `clients` are the peer memory clients that have registered ("nv_mem"). `topology_check_off` is NVIDIA's
    option NVreg_GrdmaPciTopoCheckOverride, `config_acs` whether the kernel knows that option of `pci=`.
    """

    clients: tuple[str, ...] = ()
    topology_check_off: bool | None = None
    config_acs: bool | None = None
    virtual_machine: bool = False  # from the hypervisor flag of x86 processors; unknown elsewhere


@dataclass(frozen=True)
class NvlinkDomain(KnownKeysOnly):
    """GPUs that NVLink joins, by PCI address, here and on other hosts with the same `fabric`."""

    gpus: tuple[str, ...]
    fabric: str | None = None


@dataclass(frozen=True)
class Accelerator(KnownKeysOnly):
    """A function of class 0x12 (accelerator) or 0x0b40 (co-processor) but AMD's GPUs: Gaudi, NEC VE."""

    pci_address: str
    vendor: str
    device: str
    driver: str | None
    numa_node: int | None
    name: str | None = None


@dataclass(frozen=True)
class NvidiaDriver(KnownKeysOnly):
    """NVIDIA's driver as NVML or nvidia-smi names it, and its answers for the whole machine."""

    version: str | None  # "580.95.05"
    nvml_version: str | None = None  # of the library, which may differ from the kernel module's
    cuda_version: str | None = None  # the newest that the driver supports: "13.0"
    confidential_computing: str | None = None  # "off", "on", "devtools"
    error: str | None = None  # why NVML did not start: "Driver Not Loaded"


@dataclass(frozen=True)
class GpuProcess(KnownKeysOnly):
    """A process that uses a GPU; `pod` is "namespace/name", or its UID where the name is unknown."""

    name: str | None
    pod: str | None = None
    unit: str | None = None  # "nvidia-persistenced.service", "session-3.scope"


@dataclass(frozen=True)
class NvidiaInstall(KnownKeysOnly):
    """NVIDIA's software, by the host's files; None where it was not captured.

    `kernel_modules` are the loaded modules among the few that matter to GPUs. `daemons` are NVIDIA's running
    daemons, with names cut to 15 characters, as the kernel keeps them. `packages` are the installed packages
    of fabric manager, nvlsm and IMEX.
    """

    loaded: str | None = None  # version of the loaded kernel module: "580.95.05"
    open_module: bool | None = None  # whether the loaded module is the open one
    on_disk: str | None = None  # version of the module that the next load takes
    library: str | None = None  # version in the file name of libnvidia-ml
    packages: Mapping[str, str] | None = None
    kernel_modules: tuple[str, ...] | None = None
    daemons: tuple[GpuProcess, ...] | None = None
    nouveau_kept_out: bool | None = None  # by modprobe.d or the kernel's command line
    char_links: bool | None = None  # /dev/char leads to NVIDIA's devices
    cdi_specs: tuple[str, ...] | None = None
    compute_domains: bool | None = None  # the DRA driver for ComputeDomains has registered with the kubelet
    gpu_claims: bool | None = None  # and the one for GPUs
    imex_service: str | None = None  # "enabled", "disabled", "masked"
    imex_nodes: int | None = None  # addresses in the list of nodes of the host's IMEX service
    imex_channel: bool | None = None  # /dev has IMEX channel 0
    # NVreg_CoherentGPUMemoryMode as loaded, and by modprobe.d: "driver", "numa"; "" is the branch's default
    gpu_memory_mode: str | None = None
    gpu_memory_mode_next: str | None = None
    imex_list: str | None = None  # SHA-256 of that list, a node on each line
    imex_commands: bool | None = None  # the host's IMEX daemon takes commands by a socket, for the DRA driver


@dataclass(frozen=True)
class DeviceHolder(KnownKeysOnly):
    """A device that the kubelet has given to a container, by the kubelet's own answer or its checkpoint.

    `device` is the id that the device plugin advertises: for NVIDIA the UUID of a GPU or a MIG device, with
    "::N" where it is shared. `present` is False where only the checkpoint still names the pod.
    """

    device: str
    resource: str
    pod: str  # "namespace/name", or the UID where the name is not known
    container: str
    present: bool


@dataclass(frozen=True)
class KubeletInstall(KnownKeysOnly):
    """The kubelet as it is set up on the host; texts are exactly what the files hold.

    `flags` are the arguments after the program's name, environment files resolved. `exec_start` is the last
    ExecStart, as written, of the unit without our drop-in; `config_dir_added`: that drop-in adds
    --config-dir, and nothing else does. `config_text` is the file of --config, `drop_ins` the *.conf files
    below --config-dir. `arguments_text` is `arguments_file`, from which a distribution's program takes the
    kubelet's arguments at each start; there `config_dir_added` means a line of ours.
    """

    version: str | None  # "1.36.3"
    unit: str | None  # "kubelet.service"
    config_file: str | None
    config_dir: str | None
    flags: tuple[str, ...]
    exec_start: str | None = None
    config_text: str | None = None
    drop_ins: Mapping[str, str] = field(default_factory=dict)
    root_dir: str = ROOT_DIR
    state_files: Mapping[str, str] = field(default_factory=dict)  # "cpu_manager_state" -> text
    running: bool = False  # `flags` come from the running process, not from the unit
    binary: str | None = None  # "INODE SIZE MTIME PATH" of the program; differs after every upgrade
    problem: str | None = None  # why the version of an installed kubelet is unknown
    distribution: str | None = None  # "k3s", "RKE2" or "MicroK8s", where one of them runs the kubelet
    login: str | None = None  # path of the kubeconfig that the kubelet was given, or got when it joined
    plugin_resources: tuple[str, ...] | None = None  # of device plugins with devices, by its checkpoint
    config_dir_added: bool = False
    arguments_file: str | None = None
    arguments_text: str | None = None


def why_no_version(kubelet: KubeletInstall | None) -> str:
    """Return why a kubelet's version is unknown, in the words of tables and plans; "" where it is known."""
    if kubelet is None:
        return "no kubelet is installed"
    if kubelet.version is not None:
        return ""
    return kubelet.problem or "the kubelet's program was not found"


@dataclass(frozen=True)
class HostProcess:
    """A daemon of the host, or one that a pod runs; its limits are None where there is none ("unlimited")."""

    name: str  # as the kernel cuts it
    unit: str | None = None
    in_pod: bool = False
    open_files: int | None = None
    locked_memory_bytes: int | None = None


@dataclass(frozen=True)
class InstalledPackage:
    """A package that must not be upgraded unattended: of the "kernel", "driver", "kubelet", "containerd"."""

    name: str
    version: str
    kind: str
    held: bool | None = None


@dataclass(frozen=True)
class Containerd:
    """containerd's configuration, from `containerd config dump`; None where the dump lacks it.

    `versions` are the versions of its own file and of the fragments beside it, by path. `runtimes` maps each
    runtime handler to its SystemdCgroup.
    """

    version: str | None = None  # "2.1.4"
    config_version: int | None = None
    imports: tuple[str, ...] | None = None
    versions: Mapping[str, int | None] = field(default_factory=dict)
    fragments: tuple[str, ...] = ()  # below /etc/containerd/conf.d
    runtimes: Mapping[str, bool | None] | None = None
    default_runtime: str | None = None
    cdi: bool | None = None
    cdi_folders: tuple[str, ...] | None = None
    nri: bool | None = None
    sandbox_image: str | None = None


@dataclass(frozen=True)
class Userland:
    """What runs on the host beside the kernel and the kubelet; None where the snapshot lacks it.

    `services` are the enabled ones among those that matter here. `swap_units` turn swap on at boot.
    `sysctl_files` are the settings of systemd-sysctl, in its order. `tuned` are the settings of TuneD's
    profiles, by "SECTION.KEY". `upgrades_skip` are patterns of names that unattended upgrades skip.
    """

    processes: tuple[HostProcess, ...] | None = None
    services: tuple[str, ...] | None = None
    package_manager: str | None = None  # "apt", "dnf", "zypper"
    can_hold: bool | None = None
    packages: tuple[InstalledPackage, ...] | None = None
    upgrades: bool | None = None  # unattended
    upgrades_skip: tuple[str, ...] = ()
    containerd: Containerd | None = None
    clock_synchronised: bool | None = None
    swaps: tuple[str, ...] | None = None
    swap_units: tuple[str, ...] | None = None
    swap_kept_off: bool = False  # by our drop-in for all swap units
    tuned_profiles: tuple[str, ...] = ()
    tuned: Mapping[str, str] = field(default_factory=dict)
    sysctl_files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    driver_tuning: tuple[str, ...] = ()  # enabled switches of /etc/infiniband/openib.conf
    claim_drivers: tuple[str, ...] | None = None  # DRA drivers registered with the kubelet: "dra.cpu"
    rdma_plugin: bool | None = None  # a pod of the shared RDMA device plugin is on the host
    rdma_cni: bool | None = None  # and the RDMA CNI plugin


@dataclass(frozen=True)
class CpuStates:
    """Which CPUs the kernel runs on, which are switched off, and which its scheduler leaves alone."""

    online: CpuSet
    offline: CpuSet
    isolated: CpuSet


@dataclass(frozen=True, kw_only=True)
class NodeTopology:
    """One machine. Sizes in bytes; CPU sets hold online CPUs unless the field says otherwise."""

    hostname: str | None
    architecture: str | None
    cpu_vendor: str | None = None  # x86's: "GenuineIntel", "AuthenticAMD"
    product: str | None = None  # what the maker calls the machine: "NVIDIA DGXH100"
    product_name: str | None = None  # the same without the maker: "DGXH100"
    firmware: str | None = None  # version of the machine's firmware (BIOS)
    kernel: str | None
    kernel_cmdline: str | None
    os_release: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None  # MemTotal, as the kubelet counts capacity
    swap_bytes: int | None
    cgroup_version: int | None
    kubelet: KubeletInstall | None
    cpus: CpuStates
    smt: str | None = None  # the kernel's SMT control: "on", "off", "forceoff", "notsupported"
    switchable: CpuSet | None = None  # CPUs, offline ones too, that can be taken offline; None: not known
    nohz_full: CpuSet | None = None  # None: the kernel does not support it
    packages: tuple[Package, ...]
    numa_nodes: tuple[NumaNode, ...]
    cores: tuple[Core, ...]
    kubelet_cores: tuple[Core, ...] | None = None  # as the kubelet counts cores, by ids; None: as `cores`
    kubelet_packages: tuple[Package, ...] | None = None  # as the kubelet counts sockets; None: as `packages`
    l3_caches: tuple[L3Cache, ...]
    core_caches: tuple[CoreCaches, ...] = ()  # levels closer to the cores than `l3_caches`
    hugepages: Mapping[str, HugepagePool] = field(default_factory=dict)  # machine-wide
    cpufreq: Cpufreq | None
    idle_states: tuple[IdleState, ...] | None = None  # None: the kernel manages none, as in most guests
    kernel_values: Mapping[str, str] = field(default_factory=dict)  # the effective word, by path
    sysctls: Mapping[str, str] = field(default_factory=dict)  # "kernel.numa_balancing" -> "1"
    loadable_modules: tuple[str, ...] = ()  # for the running kernel: those that sysctls may load
    gpus: tuple[Gpu, ...]
    nvidia: NvidiaDriver | None = None
    nvidia_install: NvidiaInstall | None = None
    nvswitches: tuple[str, ...] = ()  # PCI addresses; fourth-generation ones are no PCI functions
    gpu_processes: Mapping[int, GpuProcess] = field(default_factory=dict)  # by process id
    device_holders: tuple[DeviceHolder, ...] | None = None  # None: neither kubelet nor checkpoint says
    holders_doubt: str | None = None  # why the kubelet itself did not report who holds devices
    accelerators: tuple[Accelerator, ...] = ()
    nics: tuple[Nic, ...]
    rdma_devices: tuple[RdmaDevice, ...] = ()
    rdma_netns: str | None = None  # of the RDMA subsystem: "shared", "exclusive"
    networks: tuple[Network, ...] = ()
    nccl_conf: str | None = None  # text of /etc/nccl.conf; of /etc/rccl.conf where all GPUs are AMD's
    peer_memory: PeerMemory = field(default_factory=PeerMemory)
    nvmes: tuple[Nvme, ...] = ()
    other_devices: tuple[PciDevice, ...] = ()
    pci_functions: tuple[PciFunction, ...] = ()  # of GPUs, NICs and the bridges above them
    pci_paths: Mapping[str, tuple[str, ...]]
    userland: Userland | None = None
    kernel_values_record: str | None = None  # text of /etc/numaforge/kernel-values
    # Other files that a saved plan may set, by path; of an interrupt of a device, its CPUs
    planned_files: Mapping[str, str] = field(default_factory=dict)
    previous_plan: str | None = None  # text of plan.json, which tells our settings from the admin's
    unfinished: Unfinished | None = None  # a change by numaforge that has not ended
    unreadable: tuple[str, ...] = ()  # files that the capturing user was not allowed to read

    @property
    def online(self) -> CpuSet:
        return self.cpus.online

    @property
    def offline(self) -> CpuSet:
        return self.cpus.offline

    @property
    def isolated(self) -> CpuSet:
        return self.cpus.isolated

    @property
    def claim_drivers(self) -> tuple[str, ...]:
        """The drivers of dynamic resource allocation that have registered, as far as is known."""
        return (self.userland.claim_drivers if self.userland else None) or ()

    @property
    def kubelet_config(self) -> str | None:
        """The text of the kubelet's main config file; None where there is none, or no kubelet."""
        return self.kubelet.config_text if self.kubelet else None

    @property
    def edited_kubelet_text(self) -> str | None:
        """The text of the file of the host that a plan edits: the kubelet's arguments, or its config."""
        return (self.kubelet and self.kubelet.arguments_text) or self.kubelet_config
