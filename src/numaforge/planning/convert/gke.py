"""A node system configuration of GKE (`gcloud container node-pools create --system-config-from-file`).

Source: cloud.google.com/kubernetes-engine/docs/how-to/node-system-config and the REST reference of
NodeKubeletConfig and LinuxNodeConfig.
"""

from collections.abc import Mapping
from typing import Any

from numaforge.lib.given import digits, mapping
from numaforge.planning.convert.draft import Draft
from numaforge.planning.convert.kubelet_configuration import place
from numaforge.planning.convert.rows import table

_POLICIES = {
    "BestEffort": "best-effort",
    "SingleNumaNode": "single-numa-node",
    "Restricted": "restricted",
    "None": "none",
}
_ENABLED = "TRANSPARENT_HUGEPAGE_ENABLED_"
_DEFRAG = {
    "ALWAYS": "always",
    "DEFER": "defer",
    "WITH_DEFER": "defer",
    "DEFER_WITH_MADVISE": "defer+madvise",
    "WITH_MADVISE": "madvise",
    "MADVISE": "madvise",
    "NEVER": "never",
}
_SIZES = {"hugepage_size2m": "2Mi", "hugepage_size1g": "1Gi"}


def _enabled(value: str) -> str | None:
    word = value.removeprefix(_ENABLED).lower()
    return None if word == "unspecified" else word


def _defrag(value: str) -> str | None:
    word = value.removeprefix("TRANSPARENT_HUGEPAGE_DEFRAG_")
    return None if word == "UNSPECIFIED" else _DEFRAG.get(word, word)


ROWS = table(
    "gke",
    {
        "linuxConfig.cgroupMode": lambda value: "v2" if value == "CGROUP_MODE_V2" else None,
        "linuxConfig.transparentHugepageEnabled": _enabled,
        "linuxConfig.transparentHugepageDefrag": _defrag,
    },
)


def convert(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert a node system configuration. It does not include what GKE reserves."""
    draft.take(document, ROWS)
    if draft.mistakes:
        return
    kubelet, linux = mapping(document.get("kubeletConfig")), mapping(document.get("linuxConfig"))
    topology = mapping(kubelet.get("topologyManager"))
    policy = topology.get("policy")
    fields = {
        "cpuManagerPolicy": (kubelet.get("cpuManagerPolicy"), "kubeletConfig.cpuManagerPolicy"),
        "topologyManagerPolicy": (_POLICIES.get(str(policy), policy), "kubeletConfig.topologyManager.policy"),
        "topologyManagerScope": (topology.get("scope"), "kubeletConfig.topologyManager.scope"),
        "memoryManagerPolicy": (
            mapping(kubelet.get("memoryManager")).get("policy"),
            "kubeletConfig.memoryManager.policy",
        ),
    }
    place(
        draft,
        {field: value for field, (value, _) in fields.items()},
        lambda field: fields.get(field, ("", field))[1],
    )
    for section in ("hugepageConfig", "hugepages"):
        for name, count in mapping(linux.get(section)).items():
            size = _SIZES[name.replace("hugepageSize", "hugepage_size")]
            pages = digits(str(count))
            if pages is None:
                draft.refuse(f"linuxConfig.{section}.{name}", f"{count!r} is not a number of pages")
            else:
                draft.add("hugepages", [{"size": size, "count": pages}], f"linuxConfig.{section}")
    draft.differs(
        "(not in the file)",
        "GKE reserves CPUs and memory by formulas of its own: set cpus.reserved, memory.kube_reserved and "
        "memory.system_reserved, else the machine's shape decides",
        "memory",
    )
