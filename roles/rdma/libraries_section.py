"""Section `rdma.libraries`: files that configure NCCL, UCX and NVSHMEM for the rails."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import IPv4Network
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from numaforge.lib.section import Section
from numaforge.lib.section_values import as_text

# The names in NCCL's user guide (2.30), and those in its source that fleets set. NCCL ignores unknown
# names silently, so a misspelt one would have no effect.
_NUMBERS = """
ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CGA_CLUSTER_SIZE CHECK_POINTERS CHUNK_SIZE COLLNET_ENABLE
COLLNET_NODE_THRESHOLD COMM_BLOCKING CROSS_NIC CUMEM_ENABLE CUMEM_HOST_ENABLE DMABUF_ENABLE GDRCOPY_ENABLE
GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE GDRCOPY_SYNC_ENABLE GDR_FLUSH_DISABLE GRAPH_MIXING_SUPPORT
GRAPH_REGISTER GRAPH_STREAM_ORDERING IB_ADAPTIVE_ROUTING IB_AR_THRESHOLD IB_DATA_DIRECT IB_DEVICE_PCI_ORDER
IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_MERGE_NICS IB_MERGE_VFS IB_OOO_RQ IB_PCI_RELAXED_ORDERING IB_PKEY
IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_SL IB_SPLIT_DATA_ON_QPS IB_TC
IB_TIMEOUT IB_WARN_RAIL_LOCAL IGNORE_COLLNET_MISMATCH IGNORE_CPU_AFFINITY IGNORE_NET_MISMATCH
IPC_USE_ABSTRACT_SOCKET LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE LL128_C2C
LL128_NTHREADS LL_BUFFSIZE LOCAL_REGISTER MAX_CTAS MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN
MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MNNVL_CLIQUE_ID MNNVL_CROSS_CLIQUE MNNVL_ENABLE MNNVL_UUID
MULTI_RANK_GPU_ENABLE NCHANNELS_PER_NET_PEER NET_DISABLE_INTRA NET_FORCE_FLUSH NET_GDR_C2C NET_GDR_READ
NET_OVERHEAD NET_SHARED_BUFFERS NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NVB_DISABLE NVB_PRECONNECT
NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE
P2P_DIRECT_DISABLE P2P_DISABLE P2P_LL_THRESHOLD P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE
P2P_PXN_LEVEL P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY PAT_ENABLE PXN_C2C PXN_DISABLE RAS_ENABLE RAS_TIMEOUT_FACTOR
RUNTIME_CONNECT SET_STACK_SIZE SHM_DISABLE SHM_LOCALITY SOCKET_INLINE SOCKET_MIN_TASKSIZE SOCKET_NTHREADS
SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF
SYM_GIN_KERNELS_ENABLE UID_STAGGER_RATE UID_STAGGER_THRESHOLD WIN_ENABLE
"""
_TEXTS = """
ALGO CHECK_MODE CTA_POLICY DEBUG DEBUG_FILE DEBUG_SUBSYS DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS
GRAPH_FILE IBVERBS_LIB IB_ADDR_FAMILY IB_ADDR_RANGE LAUNCH_MODE NET NETDEVS_POLICY NET_FORCE_MERGE
NET_MERGE_LEVEL NET_MERGE_POLICY NET_PLUGIN OOB_NET_IFNAME P2P_LEVEL PROFILER_PLUGIN PROTO PROXY_CPUSET
RAS_ADDR SET_THREAD_NAME SOCKET_FAMILY SOCKET_MAGIC THREAD_THRESHOLDS TOPO_DUMP_FILE TUNER_PLUGIN
"""
_NUMERIC_NAMES = frozenset(f"NCCL_{name}" for name in _NUMBERS.split())
NCCL_NAMES = _NUMERIC_NAMES.union(f"NCCL_{name}" for name in _TEXTS.split())
_CHOICES: Mapping[str, str] = {
    "NCCL_ALGO": "Tree Ring CollNetDirect CollNetChain NVLS NVLSTree PAT",
    "NCCL_DEBUG": "VERSION WARN INFO ABORT TRACE",
    "NCCL_P2P_LEVEL": "LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS 0 1 2 3 4 5",
    "NCCL_PROTO": "LL LL128 Simple",
}
"""The words that these take, in lists and after ^ and FUNCTION: too."""

_OF_THE_JOB = "set it in the environment of the job"
_GID_INDEX = (
    "an index differs from host to host and changes as addresses come and go, so that a pinned one fails or "
    "takes another network (NVIDIA/nccl#551, #890); NCCL finds it by itself. To choose among networks, set "
    "NCCL_IB_ROCE_VERSION_NUM, NCCL_IB_ADDR_FAMILY or NCCL_IB_ADDR_RANGE"
)
REFUSED: Mapping[str, str] = {
    name: reason
    for names, reason in (
        ("IB_GID_INDEX", _GID_INDEX),
        ("CONF_FILE ENV_PLUGIN", f"NCCL reads it before it reads /etc/nccl.conf; {_OF_THE_JOB}"),
        ("ASYNC_ERROR_HANDLING BLOCKING_WAIT", f"PyTorch reads it, as TORCH_NCCL_...; {_OF_THE_JOB}"),
        ("COMM_ID HOSTID", f"it is another one for each job or host; {_OF_THE_JOB}"),
        ("IB_CUDA_SUPPORT LL_THRESHOLD TREE_THRESHOLD", "NCCL no longer reads it"),
        ("SOCKET_IFNAME", "set rdma.libraries.socket_interface"),
        ("IB_HCA", "it is made of the rails; further devices go into rdma.libraries.more_devices"),
        ("NET_GDR_LEVEL", "set rdma.libraries.gdr_level"),
        ("TOPO_FILE", "set rdma.libraries.topology_file"),
    )
    for name in (f"NCCL_{part}" for part in names.split())
}
"""Refused names, and what to do instead."""

KNOWN_NAMES = NCCL_NAMES | REFUSED.keys()
WRITTEN_BY_NCCL = frozenset({"NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_DEBUG_FILE"})
"""NCCL writes a file there: never proposed for a misspelt name, whose file it would replace."""


DEFAULT_ROUTE = "default-route"

_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}")  # IFNAMSIZ is 16, its last byte a NUL
_RDMA_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")  # IB_DEVICE_NAME_MAX
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_PATH = re.compile(r"/[A-Za-z0-9_./+-]+")
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


def _device(value: object) -> str:
    text = str(value)
    if not _RDMA_DEVICE.fullmatch(text):
        raise ValueError(
            f"{text!r} is not an RDMA device; write its name as `rdma link` has it, such as mlx5_0"
        )
    return text


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
        advice = (
            f"did you mean NCCL_{nearest[0]}?"
            if nearest
            else f"if a plugin or PyTorch reads it, {_OF_THE_JOB}"
        )
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


def _topology_file(value: object) -> str:
    text = str(value)
    if text != "auto" and not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is not a topology file; write auto or an absolute path")
    return text


Interface = Annotated[str, BeforeValidator(_interface_name), as_text("interface or IPv4 network")]
RdmaDeviceName = Annotated[str, BeforeValidator(_device), as_text("RDMA device", f"^{_RDMA_DEVICE.pattern}$")]
GdrLevel = Annotated[str, BeforeValidator(_level), as_text("NCCL level", f"^({'|'.join(_LEVELS)})$")]
NcclName = Annotated[
    str, BeforeValidator(_nccl_name), as_text("NCCL setting", f"^({'|'.join(sorted(NCCL_NAMES))})$")
]
NcclText = Annotated[
    str, BeforeValidator(_nccl_value), as_text("NCCL value", f"^{_VALUE.pattern}$", or_a=("integer",))
]
PciAddress = Annotated[str, BeforeValidator(_address), as_text("PCI address")]
TopologyFile = Annotated[
    str, BeforeValidator(_topology_file), as_text("topology file", f"^(auto|{_PATH.pattern})$")
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
