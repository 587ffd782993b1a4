"""Section `rdma.libraries`: files that configure NCCL, UCX and NVSHMEM for the rails."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from numaforge.lib.section import Section
from numaforge.lib.section_values import as_text, fits

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
