"""RDMA in a plan: pools, rails, the host's own settings, and the paths of its files."""

from dataclasses import dataclass, field

from numaforge.lib.codec import ByName
from numaforge.lib.file_content import PROGRAMS
from numaforge.roles.rdma.nics.plan import NicSetting

NCCL_CONF_PATH = "/etc/nccl.conf"
RCCL_CONF_PATH = "/etc/rccl.conf"
RAILS_ENV_PATH = "/etc/numaforge/rails.env"
NCCL_TOPOLOGY_PATH = "/etc/numaforge/nccl-topology.xml"
CONF_PATHS = (NCCL_CONF_PATH, RCCL_CONF_PATH)
LIBRARY_PATHS = (NCCL_TOPOLOGY_PATH, *CONF_PATHS, RAILS_ENV_PATH)
RDMA_GATE_SCRIPT_PATH = f"{PROGRAMS}/rdma-gate.sh"
RDMA_GATE_UNIT_PATH = "/etc/systemd/system/numaforge-rdma-gate.service"


@dataclass(frozen=True)
class GpuRail:
    """The RDMA ports nearest to one GPU."""

    gpu: str  # "GPU0"
    pci_address: str
    ports: tuple[str, ...]  # "mlx5_0:1"


@dataclass(frozen=True)
class HiddenSwitch:
    """A PCIe switch that a virtual machine does not see, for NCCL's topology file.

    `pci_address` is one that no device has; `speed` is in GT/s, `width` in lanes, None where unknown.
    """

    pci_address: str
    numa_node: int
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    speed: int | None = None
    width: int | None = None


@dataclass(frozen=True)
class LibrariesPlan:
    """The settings of NCCL (RCCL on AMD's GPUs), UCX, NVSHMEM and vLLM for the rails.

    `ports` are all used ports, in rail order. `nccl` are NCCL's settings on the host's network, `variables`
    those of the other libraries; the settings for pods of the overlay and for single GPUs are derived from
    them (`roles/rdma/environment.py`). `conf_path` is the file that the library reads, `nccl_conf`: we write
    it. `admin_conf` is the admin's own text for that file: it stays below our lines while we write the file,
    and is put back when we no longer do.
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
    conf_path: str = NCCL_CONF_PATH


@dataclass(frozen=True)
class RdmaPool:
    """One resource of the shared RDMA device plugin: at most `tokens` containers share all of its devices.

    `selectors` are in the plugin's format, and choose exactly the PCI functions at `pci_addresses`. `gpus`
    are the PCI addresses of the GPUs to which its devices are nearest.
    """

    resource: str  # "rdma/rail0"
    tokens: int
    devices: tuple[str, ...]  # RDMA devices: "mlx5_0"
    pci_addresses: tuple[str, ...]
    selectors: ByName[tuple[str, ...]]  # {"ifNames": ["ibs1"]}
    numa_node: int | None = None  # None: unknown, or several
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class RdmaGate:
    """What the kubelet waits for at boot: RDMA devices, and a number of virtual functions by PCI address."""

    devices: tuple[str, ...] = ()
    virtual_functions: ByName[int] = field(default_factory=dict)
    seconds: int = 120


@dataclass(frozen=True)
class RdmaHostPlan:
    """RDMA settings of the host; empty means "left as it is".

    `memlock_units` run without a limit on pinned memory. `character_devices` are the kinds ("uverbs", "umad")
    that each RDMA device must have below /dev/infiniband.
    """

    netns: str | None = None  # "shared", "exclusive"
    memlock_units: tuple[str, ...] = ()
    nics: tuple[NicSetting, ...] = ()
    gate: RdmaGate | None = None
    character_devices: ByName[tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class RdmaPlan:
    """RDMA on one node; `pools_deployed`: the shared device plugin serves this node with `pools`."""

    pools: tuple[RdmaPool, ...] = ()
    pools_deployed: bool = False

    libraries: LibrariesPlan = LibrariesPlan()

    host: RdmaHostPlan = RdmaHostPlan()
