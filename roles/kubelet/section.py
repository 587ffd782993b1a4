"""Section `kubelet`: which resource managers run, and how."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from numaforge.lib.section import Removable
from numaforge.lib.section_values import as_text, fits

_VERSION = re.compile(r"v?1\.[0-9]+(\.[0-9]+)?([-+.].*)?")
_NAME = "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DOMAIN = "[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_TAINT = re.compile(f"({_DOMAIN}/)?{_NAME}(={_NAME}|=)?:(NoSchedule|PreferNoSchedule|NoExecute)")


def _kubelet_version(value: object) -> str:
    if isinstance(value, float):
        raise ValueError(
            f'{value!r} is a number to YAML, which turns 1.30 into 1.3; write it in quotes: "1.36"'
        )
    text = str(value)
    if not _VERSION.fullmatch(text):
        raise ValueError(f'{text!r} is not a kubelet version; write for example "1.36" or "1.36.2"')
    return text.removeprefix("v")


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, str)):
        return str(value)
    raise ValueError(f"{value!r} is not an option's value; write true, false or a number")


def read_taint(text: str) -> dict[str, str]:
    """Return a taint such as "key=value:NoSchedule" in the form of a KubeletConfiguration."""
    key_value, _, effect = text.rpartition(":")
    key, _, value = key_value.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


VersionText = Annotated[
    str, BeforeValidator(_kubelet_version), as_text("kubelet version", f"^{_VERSION.pattern}$")
]
OptionText = Annotated[
    str, BeforeValidator(_option_text), as_text("option value", or_a=("boolean", "integer"))
]

_A_TAINT = "is not a taint; write KEY=VALUE:EFFECT or KEY:EFFECT, such as numaforge.io/unverified:NoSchedule"
TaintText = Annotated[
    str, BeforeValidator(fits(_TAINT, _A_TAINT, quoted=True)), as_text("taint", f"^{_TAINT.pattern}$")
]


class Kubelet(Removable):
    """Which resource managers run, and how. Unset: the kubelet's own setting, or one that fits the machine.

    With `state: absent` numaforge configures nothing of the kubelet, and reverts what it has set.
    """

    version: VersionText | None = Field(
        default=None,
        description="The kubelet's version, for hosts where no kubelet is installed yet; in quotes.",
        examples=["1.36"],
    )
    resource_engine: Literal["kubelet", "dra"] | None = Field(
        default=None,
        description="What allocates CPUs: the kubelet's managers, or the CPU driver of dynamic resource "
        "allocation. With dra the kubelet's policies are none, even if the profile that this one `extends` "
        "sets others. Unset: kubelet.",
        examples=["dra"],
    )
    cpu_manager_policy: Literal["none", "static"] | None = Field(
        default=None,
        description="static gives exclusive CPUs to Guaranteed pods that request whole CPUs.",
        examples=["static"],
    )
    cpu_manager_options: dict[str, OptionText] = Field(
        default={},
        description="cpuManagerPolicyOptions, each checked against the kubelet's version. full-pcpus-only is "
        "on by default where every core has several threads.",
        examples=[{"distribute-cpus-across-numa": True}],
    )
    topology_manager_policy: Literal["none", "best-effort", "restricted", "single-numa-node"] | None = Field(
        default=None,
        description="How strictly a pod's CPUs, memory and devices must be on the same NUMA nodes. Unset: "
        "single-numa-node on machines with several NUMA nodes, best-effort where a pod with all GPUs would "
        "not fit on one of them.",
        examples=["restricted"],
    )
    topology_manager_scope: Literal["container", "pod"] | None = Field(
        default=None, description="Whether to align each container, or the pod as a whole.", examples=["pod"]
    )
    topology_manager_options: dict[str, OptionText] = Field(
        default={},
        description="topologyManagerPolicyOptions, each checked against the kubelet's version. "
        "max-allowable-numa-nodes is set automatically on machines that need it.",
        examples=[{"prefer-closest-numa-nodes": True}],
    )
    memory_manager_policy: Literal["None", "Static"] | None = Field(
        default=None,
        description="Static assigns NUMA nodes to the memory and huge pages of each Guaranteed pod. Unset: "
        "Static with restricted and single-numa-node, otherwise None.",
        examples=["Static"],
    )
    register_with_taints: list[TaintText] = Field(
        default=[],
        description="Taints that a Node gets when it first joins. `numaforge rollout release` removes "
        "numaforge.io/unverified once a node that plans itself has verified itself.",
        examples=[["numaforge.io/unverified:NoSchedule"]],
    )
    on_conflict: Literal["refuse", "override"] = Field(
        default="refuse",
        description="What to do if the kubelet's own files contradict this profile.",
        examples=["override"],
    )
