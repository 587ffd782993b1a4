"""Sections `rdma` and `nic_queues`: RDMA devices for pods, settings of the host, its NICs and libraries."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from numaforge.lib.section import Removable, Section, given
from numaforge.lib.section_values import as_text, fits
from numaforge.roles.modules.section import ModuleName

# ---- rdma.device_plugin: the pools of the shared RDMA device plugin ----

PLACEHOLDERS = {"rail": "{rail}", "numa_node": "{numa_node}", "device": "{device}", "machine": ""}
"""The placeholder that a resource's name must contain, so that each pool gets its own name."""
DEFAULT_NAMES = {"rail": "rail{rail}", "numa_node": "numa{numa_node}", "device": "{device}", "machine": "hca"}
RESOURCE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_]{0,61}[A-Za-z0-9])?")
"""What the plugin (`[a-zA-Z0-9_]+`) and the kubelet (a letter or digit at both ends, 63 at most) accept."""
PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LONGEST_PREFIX = 253
_PCI_ID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4})?")


def _prefix(value: object) -> str:
    text = str(value)
    if not PREFIX.fullmatch(text) or len(text) > LONGEST_PREFIX:
        raise ValueError(
            f"{text!r} is not the prefix of a resource; write a domain of small letters, digits, '-' and "
            "'.', such as rdma or rdma.example.com"
        )
    if text == "nvidia.com" or text == "kubernetes.io" or text.endswith(".kubernetes.io"):
        raise ValueError(f"{text} is the prefix of other resources; write for example rdma")
    return text


Prefix = Annotated[str, BeforeValidator(_prefix), as_text("DNS subdomain", f"^{PREFIX.pattern}$")]
_NOT_AN_ID = (
    "is not a PCI id; write a vendor or vendor and device in hexadecimal, in quotes, such as '15b3' or "
    "'15b3:1021'"
)
PciId = Annotated[
    str, BeforeValidator(fits(_PCI_ID, _NOT_AN_ID, quoted=True)), as_text("PCI id", f"^{_PCI_ID.pattern}$")
]


class RdmaSelection(Section):
    """A selection of RDMA devices: those that match an entry of every given list."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                given(key, {"minItems": 1})
                for key in ("names", "interfaces", "link_layers", "drivers", "ids")
            ]
        }
    )

    names: tuple[str, ...] = Field(
        default=(), description="Names of RDMA devices; `*` and `?` are wildcards.", examples=[["mlx5_*"]]
    )
    interfaces: tuple[str, ...] = Field(
        default=(), description="Names of network interfaces; `*` and `?` are wildcards.", examples=[["ibs*"]]
    )
    link_layers: tuple[Literal["InfiniBand", "Ethernet"], ...] = Field(
        default=(),
        description="Link layers of their ports: InfiniBand or Ethernet.",
        examples=[["InfiniBand"]],
    )
    drivers: tuple[str, ...] = Field(
        default=(), description="Drivers of their PCI functions.", examples=[["mlx5_core"]]
    )
    ids: tuple[PciId, ...] = Field(
        default=(), description="PCI vendors, or vendors and devices.", examples=[["15b3:1021"]]
    )

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if not any(getattr(self, name) for name in type(self).model_fields):
            raise ValueError(f"selects nothing by itself; give {', '.join(type(self).model_fields)}")
        return self


class SharedDevicePlugin(Section):
    """The pools that the shared RDMA device plugin offers. Unset: numaforge does not configure it."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [given("per"), {"propertyNames": {"const": "per"}}]}
    )

    per: Literal["rail", "numa_node", "device", "machine"] | None = Field(
        default=None,
        description="What one resource contains: a rail, the devices of a NUMA node, one device, or all of "
        "them. A pod gets every device of a resource, and the kubelet does not align them with GPUs; with "
        "one resource per rail the pod chooses.",
        examples=["rail"],
    )
    resource_prefix: Prefix = Field(
        default="rdma", description="The part of each resource's name before the `/`."
    )
    resource_name: str | None = Field(
        default=None,
        description="The part after the `/`, with {rail}, {numa_node} or {device} to match `per`. Unset: "
        "rail{rail}, numa{numa_node}, {device}, or hca for all devices of the machine.",
        examples=["hca"],
    )
    hca_max: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        default=63,
        description="rdmaHcaMax: the maximum number of pods that share a resource. The examples of NVIDIA's "
        "network operator have 63, the plugin's own example has 1000.",
        examples=[63],
    )
    include: tuple[RdmaSelection, ...] = Field(
        default=(), description="Offer only these devices. Unset: all.", examples=[[{"names": ["mlx5_*"]}]]
    )
    exclude: tuple[RdmaSelection, ...] = Field(
        default=(), description="Leave these devices out.", examples=[[{"interfaces": ["storage*"]}]]
    )
    down_ports: bool = Field(
        default=True,
        description="Offer devices without an active port as well: the plugin brings their interfaces up, "
        "and an unplugged cable does not change resources.",
    )
    virtual_functions: bool = Field(
        default=False,
        description="Offer virtual functions in addition to physical functions.",
        examples=[True],
    )
    software_devices: bool = Field(
        default=False,
        description="Offer software devices (rxe, siw) by the PCI function of their interface. For tests: "
        "the plugin finds only what the kernel shows below a PCI function.",
        examples=[True],
    )
    deployed: bool = Field(
        default=False,
        description="Whether the manifests for these nodes are in the cluster: the roll-out then labels the "
        "Node for its pools, and proves that it advertises them.",
        examples=[True],
    )

    @model_validator(mode="after")
    def _one_name_for_each_pool(self) -> Self:
        if self.per is None:
            if extra_keys := sorted(self.model_fields_set - {"per"}):
                raise ValueError(f"has {', '.join(extra_keys)}, but not per (what a resource holds)")
            return self
        pattern, needed = self.pattern, PLACEHOLDERS[self.per]
        bare = pattern.replace(needed, "0") if needed else pattern
        if needed not in pattern or not RESOURCE_NAME.fullmatch(bare):
            raise ValueError(
                f"resource_name {pattern!r} names no resource per {self.per}; write letters, digits and '_', "
                f"for example {DEFAULT_NAMES[self.per]}"
            )
        return self

    @property
    def pattern(self) -> str:
        """The pattern of resource names; only for a section that sets `per`."""
        return self.resource_name or DEFAULT_NAMES[self.per or "machine"]


# ---- rdma.host and nic_queues: modules, limits and NIC settings ----

_NIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_PRIORITIES = range(8)  # IEEE 802.1Q
_MOST_QUEUES = 4096  # more than any NIC has


def _priorities(value: tuple[int, ...]) -> tuple[int, ...]:
    if len({*value}) != len(value):
        raise ValueError("names a priority more than once")
    return tuple(sorted(value))


_NOT_A_NIC = "is not a NIC; write an RDMA device (mlx5_0), an interface (eth2) or a PCI address"
Nic = Annotated[
    str, BeforeValidator(fits(_NIC, _NOT_A_NIC, quoted=True)), as_text("NIC", f"^{_NIC.pattern}$")
]
Priority = Annotated[int, Field(strict=True, ge=_PRIORITIES[0], le=_PRIORITIES[-1])]


class WaitForVirtualFunctions(Section):
    """What to wait for at boot before the kubelet starts, and for how long."""

    count: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = Field(
        default=None,
        description="How many virtual functions with an RDMA device to wait for on each NIC. Unset: wait "
        "for the RDMA devices that the NICs have when the node is planned.",
        examples=[8],
    )
    timeout_seconds: Annotated[int, Field(strict=True, ge=1, le=600)] = Field(
        default=120,
        description="After this time the kubelet starts anyway, and the unit fails.",
        examples=[300],
    )


class RdmaHost(Section):
    """Host settings for RDMA. Unset keys leave the host as it is."""

    modules: Literal["mlx5"] | tuple[ModuleName, ...] = Field(
        default=(),
        description="Modules to load in addition to `modules.load`; mlx5 is the set for ConnectX and "
        "BlueField: mlx5_ib, ib_uverbs, ib_umad, rdma_ucm, rdma_cm.",
        examples=["mlx5", ["irdma", "ib_uverbs", "rdma_ucm"]],
    )
    netns: Literal["shared", "exclusive"] | None = Field(
        default=None,
        description="Whether network namespaces share RDMA devices, as the shared device plugin needs, or "
        "have their own, as the RDMA CNI needs.",
        examples=["shared"],
    )
    memlock: Literal["unlimited"] | None = Field(
        default=None,
        description="How much memory the container runtime and the kubelet, and therefore pods, may pin.",
        examples=["unlimited"],
    )
    nics: Literal["rails"] | tuple[Nic, ...] = Field(
        default="rails",
        description="The NICs that the settings below apply to. rails: the NICs near GPUs, or all NICs with "
        "RDMA if the machine has no GPU. A list: the named ones.",
        examples=["rails", ["mlx5_0", "mlx5_1"]],
    )
    max_read_request: Literal[128, 256, 512, 1024, 2048, 4096] | None = Field(
        default=None, description="The maximum PCIe read request, in bytes.", examples=[4096]
    )
    relaxed_ordering: bool | None = Field(
        default=None,
        description="Whether the NICs use relaxed ordering for PCIe writes. This is a firmware setting: the "
        "plan shows the command, and numaforge does not run it.",
        examples=[True],
    )
    trust: Literal["dscp", "pcp"] | None = Field(
        default=None, description="What determines the priority of a packet on Ethernet.", examples=["dscp"]
    )
    pfc: Annotated[tuple[Priority, ...], AfterValidator(_priorities)] | None = Field(
        default=None,
        description="The priorities, 0 to 7, that pause instead of dropping packets on Ethernet (priority "
        "flow control); all others do not pause.",
        examples=[[3]],
    )
    wait_for_virtual_functions: WaitForVirtualFunctions | None = Field(
        default=None,
        description="Delay the kubelet at boot until the RDMA devices exist.",
        examples=[{"count": 8, "timeout_seconds": 120}],
    )


class NicQueues(Removable):
    """The number of combined channels of NICs. Unset: as the driver made them, one for each CPU."""

    combined: Literal["reserved"] | Annotated[int, Field(strict=True, ge=1, le=_MOST_QUEUES)] | None = Field(
        default=None,
        description="A number, or reserved: one per reserved CPU. A change takes a NIC's link down briefly, "
        "so the node is drained.",
        examples=["reserved", 16],
    )
    nics: tuple[Nic, ...] = Field(
        default=(),
        description="The NICs to change, by RDMA device, interface or PCI address. Unset: all Ethernet NICs "
        "except virtual functions and the NIC of the default route.",
        examples=[["eth2", "mlx5_0"]],
    )


# ---- rdma.libraries: files that configure NCCL, UCX and NVSHMEM for the rails ----

# The names in NCCL's user guide (2.30), and those in its source that fleets set. NCCL ignores unknown
# names silently, so a misspelt one would have no effect.
_SETTINGS = json.loads(Path(__file__).with_name("nccl_settings.json").read_text(encoding="utf-8"))
_NUMERIC_NAMES = frozenset[str](_SETTINGS["numbers"])
NCCL_NAMES = _NUMERIC_NAMES.union(_SETTINGS["texts"])
_CHOICES: Mapping[str, str] = _SETTINGS["choices"]
"""The words that these take, in lists and after ^ and FUNCTION: too."""
REFUSED: Mapping[str, str] = _SETTINGS["refused"]
"""Refused names, and what to do instead."""
KNOWN_NAMES = NCCL_NAMES | REFUSED.keys()
WRITTEN_BY_NCCL = frozenset({"NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_DEBUG_FILE"})
"""NCCL writes a file there: never proposed for a misspelt name, whose file it would replace."""

DEFAULT_ROUTE = "default-route"

_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}")  # IFNAMSIZ is 16, its last byte a NUL
_RDMA_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")  # IB_DEVICE_NAME_MAX
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_TOPOLOGY_FILE = re.compile(r"(auto|/[A-Za-z0-9_./+-]+)")
# NCCL reads at most 1023 bytes of a value from its file (src/misc/param.cc), and shells split at spaces.
_VALUE = re.compile(r"[!-~]{1,1023}")
_LEVELS = ("auto", "LOC", "PIX", "PXB", "P2C", "PHB", "SYS")


def _interface_name(value: object) -> str:
    text = str(value)
    if text == DEFAULT_ROUTE or _INTERFACE.fullmatch(text):
        return text
    try:
        return str(IPv4Network(text))
    except ValueError:
        raise ValueError(
            f"{text!r} is not an interface; write its name such as eth0, the IPv4 network that it is in "
            f"such as 10.0.0.0/16, or {DEFAULT_ROUTE}"
        ) from None


def _level(value: object) -> str:
    text = str(value)
    if text == "NODE":
        raise ValueError("NCCL has no level NODE: it calls that distance PHB")
    if text not in _LEVELS:
        raise ValueError(f"{text!r} is not a level; write one of {', '.join(_LEVELS)}")
    return text


def _nccl_name(value: object) -> str:
    text = str(value)
    if text in REFUSED:
        raise ValueError(f"{text} is not taken: {REFUSED[text]}")
    if text not in NCCL_NAMES:
        readable = () if "DUMP" in text.upper() else KNOWN_NAMES - WRITTEN_BY_NCCL
        parts = [name.removeprefix("NCCL_") for name in readable]
        nearest = get_close_matches(text.upper().removeprefix("NCCL_"), parts, n=1, cutoff=0.75)
        of_the_job = "if a plugin or PyTorch reads it, set it in the environment of the job"
        advice = f"did you mean NCCL_{nearest[0]}?" if nearest else of_the_job
        raise ValueError(f"{text!r} is not a setting in NCCL's user guide; {advice}")
    return text


def _misread(name: str, text: str) -> str | None:
    """Return why NCCL does not take a value as it stands; None where it does."""
    if name in _NUMERIC_NAMES and not re.fullmatch(r"-?(0x[0-9a-fA-F]+|[0-9]+)", text):
        return f"NCCL reads a number here, and of {text!r} its leading digits, else 0; write a number"
    if words := _CHOICES.get(name):
        for word in re.split("[,;]", text):
            if word.rpartition(":")[2].lstrip("^").lower() not in words.lower().split():
                return f"{word!r} is not a word that NCCL knows here; write {', '.join(words.split())}"
    return None


def _nccl_value(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{value!r} is not a value for NCCL; write a number or a text")
    text = str(value)
    if not _VALUE.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a value for NCCL; write 1 to 1023 characters without spaces: NCCL reads an "
            "empty value as 0 or as set, by setting"
        )
    return text


def _address(value: object) -> str:
    text = str(value).lower()
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"{text!r} is not a PCI address; write it as sysfs does, such as 0000:1b:00.0")
    return text


Interface = Annotated[str, BeforeValidator(_interface_name), as_text("interface or IPv4 network")]
RdmaDeviceName = Annotated[
    str,
    BeforeValidator(
        fits(_RDMA_DEVICE, "is not an RDMA device; write its name as `rdma link` has it, such as mlx5_0")
    ),
    as_text("RDMA device", f"^{_RDMA_DEVICE.pattern}$"),
]
GdrLevel = Annotated[str, BeforeValidator(_level), as_text("NCCL level", f"^({'|'.join(_LEVELS)})$")]
NcclName = Annotated[
    str, BeforeValidator(_nccl_name), as_text("NCCL setting", f"^({'|'.join(sorted(NCCL_NAMES))})$")
]
NcclText = Annotated[
    str, BeforeValidator(_nccl_value), as_text("NCCL value", f"^{_VALUE.pattern}$", or_a=("integer",))
]
PciAddress = Annotated[str, BeforeValidator(_address), as_text("PCI address")]
TopologyFile = Annotated[
    str,
    BeforeValidator(fits(_TOPOLOGY_FILE, "is not a topology file; write auto or an absolute path")),
    as_text("topology file", f"^{_TOPOLOGY_FILE.pattern}$"),
]


class PcieSwitch(Section):
    """GPUs and NICs that share a PCIe switch of the host, by their addresses in this machine."""

    devices: tuple[PciAddress, ...] = Field(
        min_length=2,
        description="PCI addresses of GPUs and NICs.",
        examples=[["0001:00:00.0", "0101:00:00.0"]],
    )
    numa_node: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Their nearest NUMA node in this machine. Unset: the one that the kernel reports.",
        examples=[0],
    )
    speed: Literal[8, 16, 32, 64] | None = Field(
        default=None,
        description="Speed of the switch's own link to the CPU, in GT/s. Unset: NCCL assumes 8.",
        examples=[32],
    )
    width: Literal[1, 2, 4, 8, 16] | None = Field(
        default=None, description="Lanes of that link. Unset: NCCL assumes 16.", examples=[16]
    )


class Libraries(Section):
    """Settings of libraries for the rails: in files on the host, and for pods by `numaforge rdma env`."""

    nccl_conf: bool = Field(
        default=False,
        description="Write /etc/nccl.conf, or RCCL's /etc/rccl.conf with AMD's GPUs, for jobs on the host "
        "itself.",
        examples=[True],
    )
    env_file: bool = Field(
        default=False,
        description="Write /etc/numaforge/rails.env, with the variables of all libraries that are enabled "
        "here.",
        examples=[True],
    )
    network: Literal["host", "overlay"] = Field(
        default="host",
        description="How pods are attached to the network; `numaforge rdma env` prints variables to match.",
        examples=["overlay"],
    )
    socket_interface: Interface = Field(
        default=DEFAULT_ROUTE,
        description="The interface over which NCCL sets up connections: its name, its IPv4 network, or "
        "default-route.",
        examples=["bond0", "10.0.0.0/16", "default-route"],
    )
    overlay_interface: Annotated[str, Field(pattern=f"^{_INTERFACE.pattern}$")] = Field(
        default="eth0",
        description="The same for pods on the overlay network: the name that the CNI plugin gives the "
        "interface in the pod.",
    )
    more_devices: tuple[RdmaDeviceName, ...] = Field(
        default=(),
        description="Further RDMA devices to use, although no GPU is nearest to them.",
        examples=[["mlx5_8"]],
    )
    gdr_level: GdrLevel = Field(
        default="auto",
        description="NCCL_NET_GDR_LEVEL: the largest distance at which GPUDirect is used. auto: the one "
        "that the machine's best pairs need.",
        examples=["PHB"],
    )
    topology_file: TopologyFile = Field(
        default="auto",
        description="NCCL_TOPO_FILE: an existing file; auto writes one if `pcie_switches` are given.",
        examples=["/opt/microsoft/ndv5-topo.xml"],
    )
    pcie_switches: tuple[PcieSwitch, ...] = Field(
        default=(),
        description="PCIe switches that a virtual machine does not see, as described by its host or "
        "provider.",
    )
    nccl: dict[NcclName, NcclText] = Field(
        default={},
        description="Further NCCL settings by name.",
        examples=[{"NCCL_IB_TIMEOUT": 22, "NCCL_IB_QPS_PER_CONNECTION": 4}],
    )
    ucx: bool = Field(default=False, description="Set UCX_NET_DEVICES.", examples=[True])
    nvshmem: bool = Field(
        default=False, description="Tell NVSHMEM which GPU uses which device.", examples=[True]
    )
    vllm: bool = Field(
        default=False,
        description="Tell vLLM which NIC belongs to which GPU; it then configures UCX and NVSHMEM for each "
        "worker.",
        examples=[True],
    )

    @property
    def asked(self) -> bool:
        """Whether the profile sets anything here."""
        return self != Libraries()

    @model_validator(mode="after")
    def _nccl_takes_each_value(self) -> Self:
        for name, text in self.nccl.items():
            if complaint := _misread(name, text):
                raise ValueError(f"nccl.{name}: {complaint}")
        return self

    @model_validator(mode="after")
    def _a_device_hangs_below_one_switch(self) -> Self:
        addresses: set[str] = set()
        for address in (address for switch in self.pcie_switches for address in switch.devices):
            if address in addresses:
                raise ValueError(f"pcie_switches: {address} is below two switches; it hangs below one")
            addresses.add(address)
        if self.pcie_switches and self.topology_file != "auto":
            raise ValueError("pcie_switches and topology_file are mutually exclusive")
        return self


# ---- rdma ----

AccessControlWish = Literal["keep", "correct", "bare-metal", "virtual-machines"]


class GpuDirect(Section):
    """PCIe settings for GPUDirect. Unset keys leave the host as it is."""

    acs: AccessControlWish = Field(
        default="keep",
        description="PCIe access control (ACS) of the bridges between GPUs and NICs. `keep` leaves it "
        "alone. `correct` sets what GPUDirect needs with pci=config_acs= on the kernel command line: for "
        "virtual machines if the NICs have address translation (ATS), otherwise for bare metal. The other "
        "two values make that choice explicit.",
    )


class Rdma(Section):
    """RDMA on a node. Unset keys leave the host as it is."""

    device_plugin: SharedDevicePlugin = Field(
        default=SharedDevicePlugin.unset(), description="The pools of the shared RDMA device plugin."
    )
    host: RdmaHost = Field(default=RdmaHost.unset(), description="Modules, limits and NIC settings.")
    gpudirect: GpuDirect = Field(
        default=GpuDirect.unset(), description="What GPUs and NICs need to reach each other's memory."
    )
    libraries: Libraries = Field(
        default=Libraries.unset(), description="Settings of NCCL, UCX and NVSHMEM for the rails."
    )
