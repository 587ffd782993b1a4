"""What a plan says of RDMA: pools, rails, and the host's own settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from numaforge.codec import ByName
from numaforge.roles.gpudirect.plan import AcsPlan
from numaforge.roles.nics.plan import NicSetting
from numaforge.roles.rdma.paths import NCCL_CONF_PATH


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
    """What NCCL (RCCL on AMD's GPUs), UCX, NVSHMEM and vLLM are told of the rails.

    `ports` are all that are used, in rail order. `nccl` are NCCL's settings on the network of the host,
    `variables` those of the other libraries; for pods of the overlay and for single GPUs they are derived
    (`planning/rdma/environment.py`). `conf_path` is the file that the library reads, `nccl_conf` says that it
    is written, and `admin_conf` is its text where it is not ours: that stays below our lines while we write
    the file, and is put back when we do not any more.
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
class RdmaPlan:
    """RDMA on one node: what each of its four concerns decided.

    `pools_deployed` says that the shared device plugin serves this node with `pools`.
    """

    pools: tuple[RdmaPool, ...] = ()
    pools_deployed: bool = False

    libraries: LibrariesPlan = LibrariesPlan()

    host: RdmaHostPlan = RdmaHostPlan()

    acs: AcsPlan = AcsPlan()
