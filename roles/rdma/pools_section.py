"""Section `rdma.device_plugin`: the pools of the shared RDMA device plugin."""

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from numaforge.lib.section import Section, given
from numaforge.lib.section_values import as_text, fits

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
