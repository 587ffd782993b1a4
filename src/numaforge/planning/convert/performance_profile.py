"""An OpenShift PerformanceProfile of any version, with its operator's additions.

Source: openshift/cluster-node-tuning-operator, manifests/20-performance-profile.crd.yaml and its controller's
components/{kubeletconfig,tuned,machineconfig} and assets/performanceprofile/tuned.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, get_args

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import mapping
from numaforge.planning.convert.draft import Draft
from numaforge.planning.convert.kernel_parameters import add_parameters
from numaforge.planning.convert.kubelet_configuration import HEAD_ROWS, KUBELET_ROWS, place
from numaforge.planning.convert.rows import table, tables, value_at
from numaforge.roles.crio.section import Ask

_SNIPPET = "kubeletconfig.experimental"
_SNIPPET_FIELD = f"metadata.annotations.{_SNIPPET}"
_CPU_FIELDS = ("reserved", "isolated", "offlined", "shared", "ovsDpdk")
_ALIGNED = ("restricted", "single-numa-node")
_HIGH_POWER = "spec.workloadHints.highPowerConsumption"
_SIZE = re.compile(r"(?P<number>[1-9][0-9]*)(?P<unit>[kMG])")


def _if_set(value: bool) -> str | None:
    return "reserved" if value else None


ROWS = table(
    "performanceprofile",
    {
        "spec.cpu.offlined": lambda value: str(value) or None,
        "spec.globallyDisableIrqLoadBalancing": _if_set,
        "spec.net.userLevelNetworking": _if_set,
    },
)
# What the operator adds to every node without a field for it.
OPERATOR = "the operator"
OPERATOR_ROWS = table("performanceprofile-operator")
_OPERATOR = tables()["operator"]


def convert(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert a PerformanceProfile with its operator's additions."""
    draft.take(document, ROWS)
    if draft.mistakes:
        return
    spec = _without_nulls(document.get("spec") or {})
    hints = spec.get("workloadHints", {})
    cpus = _cpus(draft, spec.get("cpu", {}))
    _refuse_contradictions(draft, spec, hints)
    if draft.mistakes:
        return
    _place_cpus(draft, spec, cpus, bool(hints.get("mixedCpus")))
    _place_hugepages(draft, spec.get("hugepages", {}))
    _place_power(draft, hints)
    _place_operator_defaults(draft, hints)
    _place_pod_tuning(draft, document, spec)
    add_parameters(draft, spec.get("additionalKernelArgs") or (), "spec.additionalKernelArgs")
    _place_kubelet(draft, document, spec, cpus, hints)


def _cpus(draft: Draft, section: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    """Return the sets of CPUs by field; refuse what the operator would not accept."""
    cpus_of: dict[str, frozenset[int]] = {}
    for name in _CPU_FIELDS:
        try:
            cpus_of[name] = parse_cpulist(str(section.get(name, "")))
        except NumaforgeError as error:
            draft.refuse(f"spec.cpu.{name}", error.message)
            cpus_of[name] = frozenset()
    for name in ("reserved", "isolated"):
        if section.get(name, "") == "":
            draft.refuse(f"spec.cpu.{name}", "must be given: the operator refuses a profile without it")
    for one, other_field in combinations(_CPU_FIELDS, 2):
        if both := cpus_of[one] & cpus_of[other_field]:
            draft.refuse(
                f"spec.cpu.{other_field}",
                f"{format_cpulist(both)} in spec.cpu.{one} too: the operator refuses sets that overlap",
            )
    return cpus_of


def _refuse_contradictions(draft: Draft, spec: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Refuse what the operator's webhook refuses (performanceprofile_validation.go)."""
    if hints.get("highPowerConsumption") and hints.get("perPodPowerManagement"):
        draft.refuse(
            "spec.workloadHints", "highPowerConsumption and perPodPowerManagement exclude each other"
        )
    if spec.get("realTimeKernel", {}).get("enabled") and hints.get("realTime") is False:
        draft.refuse("spec.workloadHints.realTime", "false, and realTimeKernel.enabled is true")
    if hints.get("mixedCpus") and not spec.get("cpu", {}).get("shared"):
        draft.refuse("spec.workloadHints.mixedCpus", "true, and spec.cpu.shared names no CPUs")


def _place_cpus(
    draft: Draft, spec: Mapping[str, Any], cpus: Mapping[str, frozenset[int]], mixed: bool
) -> None:
    isolated = format_cpulist(cpus["isolated"])
    draft.put("kernel.nohz_full", isolated, "spec.cpu.isolated")
    draft.put("kernel.rcu_nocbs", isolated, "spec.cpu.isolated")
    if spec["cpu"].get("balanceIsolated", True):
        add_parameters(draft, [f"isolcpus=managed_irq,{isolated}"], "spec.cpu.isolated")
    else:
        draft.put("kernel.isolated_cpus", isolated, "spec.cpu.balanceIsolated")
    if spec["cpu"].get("shared") and not mixed:
        draft.left_out("spec.cpu.shared", "without mixedCpus OpenShift reserves them for no one")


def _place_hugepages(draft: Draft, section: Mapping[str, Any]) -> None:
    pages = section.get("pages") or []
    default = section.get("defaultHugepagesSize")
    if pages and not default:
        draft.refuse(
            "spec.hugepages.defaultHugepagesSize", "must be given beside pages: the operator refuses it"
        )
    if default:
        add_parameters(draft, [f"default_hugepagesz={default}"], "spec.hugepages.defaultHugepagesSize")
    entries = list(_page_entries(draft, pages))
    places = [(entry["size"], entry.get("numa_node")) for entry in entries]
    for index, numa_place in enumerate(places):
        if numa_place in places[:index]:
            draft.refuse(f"spec.hugepages.pages[{index}]", "the size and the NUMA node of an entry before it")
    draft.add("hugepages", entries, "spec.hugepages.pages")
    if entries:
        draft.differs(
            "spec.hugepages.pages",
            "found while the node runs, before the kubelet starts: at: boot in an entry has the kernel "
            "reserve them, which pages of 1Gi may need and maintenance.reboot has to allow",
            "hugepages",
        )


def _page_entries(draft: Draft, pages: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for index, page in enumerate(pages):
        size = _SIZE.fullmatch(page.get("size") or "")
        if size is None:
            draft.refuse(
                f"spec.hugepages.pages[{index}].size", f"{page.get('size')!r} is not a size such as 1G"
            )
            continue
        node = {"numa_node": page["node"]} if page.get("node") is not None else {}
        unit = size["unit"].upper() + "i"
        yield {"size": f"{size['number']}{unit}", "count": page.get("count") or 0, **node}


def _place_power(draft: Draft, hints: Mapping[str, Any]) -> None:
    if hints.get("highPowerConsumption"):
        draft.put("kernel.max_cstate", 1, _HIGH_POWER)
        if hints.get("realTime", True):
            text = (
                "with realTime OpenShift adds idle=poll, which keeps every CPU busy: add it to kernel.cmdline"
            )
            draft.left_out(_HIGH_POWER, text, "kernel.cmdline")
    if not hints.get("perPodPowerManagement"):
        draft.put("tuning.governor", "performance", OPERATOR)
        draft.put("tuning.cpu_idle", {"max_latency_us": 3}, OPERATOR)


def _place_pod_tuning(draft: Draft, document: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Allow what the operator's handler does (assets/performanceprofile/configs/99-runtimes.conf).

    With globallyDisableIrqLoadBalancing, no interrupt is balanced onto pods' CPUs, whatever a pod asks for.
    """
    name = mapping(document.get("metadata")).get("name")
    balanced = not spec.get("globallyDisableIrqLoadBalancing")
    allowed = [choice for choice in get_args(Ask) if balanced or choice != "interrupts"]
    hints = spec.get("workloadHints", {})
    if not hints.get("perPodPowerManagement"):
        allowed.remove("governor")
    origin = f"{OPERATOR}: runtime class"
    draft.put("pod_tuning.allow", allowed, origin)
    if name:
        draft.put("pod_tuning.runtime_class", f"performance-{name}", origin)


def _place_operator_defaults(draft: Draft, hints: Mapping[str, Any]) -> None:
    real_time = hints.get("realTime", True)
    sysctls = {**_OPERATOR["sysctls"], **(_OPERATOR["real-time-sysctls"] if real_time else {})}
    draft.put("tuning.sysctls", dict(sorted(sysctls.items())), OPERATOR)
    draft.put("tuning.transparent_hugepages", "never", OPERATOR)
    draft.put("kernel.skew_tick", True, OPERATOR)
    draft.put("kernel.iommu", "passthrough", OPERATOR)
    draft.put("system.daemons", "reserved", OPERATOR)
    if "realTime" not in hints:
        [row] = (row for row in ROWS if row.field == "spec.workloadHints.realTime")
        draft.note(f"{row.field} (unset: true)", row.fate, row.why, row.key)
    for row in OPERATOR_ROWS:
        if row.why and not (hints.get("perPodPowerManagement") and (row.key or "").startswith("tuning")):
            draft.note(f"{OPERATOR}: {row.field}", row.fate, row.why, row.key)


def _place_kubelet(
    draft: Draft,
    document: Mapping[str, Any],
    spec: Mapping[str, Any],
    cpus: Mapping[str, frozenset[int]],
    hints: Mapping[str, Any],
) -> None:
    """Compose the operator's KubeletConfiguration over the snippet of the annotation, as it does."""
    annotations = mapping(value_at(document, "metadata.annotations"))
    for name, why in _OPERATOR["annotations"].items():
        if name in annotations:
            draft.left_out(f"metadata.annotations.{name}", why)
    snippet = _snippet(draft, annotations)
    if snippet is None:
        return
    policy = spec.get("numa", {}).get("topologyPolicy") or "best-effort"
    shared = cpus["shared"] if hints.get("mixedCpus") else frozenset()
    aligned = policy in _ALIGNED
    config = {
        "memoryManagerPolicy": "Static" if aligned else "None",
        **snippet,
        "cpuManagerPolicy": "static",
        "topologyManagerPolicy": policy,
        "reservedSystemCPUs": format_cpulist(cpus["reserved"] | cpus["ovsDpdk"] | shared),
        "kubeReserved": {"memory": "500Mi", **(snippet.get("kubeReserved") or {})},
        "systemReserved": {"memory": "500Mi", **(snippet.get("systemReserved") or {})},
        "evictionHard": {"memory.available": "100Mi", **(snippet.get("evictionHard") or {})},
        "mergeDefaultEvictionSettings": True,  # the operator fills in the other signals
    }
    if policy == "single-numa-node":
        config["cpuManagerPolicyOptions"] = {
            "full-pcpus-only": "true",
            **(snippet.get("cpuManagerPolicyOptions") or {}),
        }
    origins = {"topologyManagerPolicy": "spec.numa.topologyPolicy", "reservedSystemCPUs": "spec.cpu.reserved"}

    def origin(field: str) -> str:
        head, _, rest = field.partition(".")
        in_snippet = rest in (snippet.get(head) or {}) if rest else head in snippet
        return origins.get(field) or f"{_SNIPPET_FIELD if in_snippet else OPERATOR}: {field}"

    place(draft, config, origin)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _snippet(draft: Draft, annotations: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the KubeletConfiguration of the annotation, or None where it has mistakes."""
    text = annotations.get(_SNIPPET)
    if text is None:
        return {}
    try:
        snippet = json.loads(text)
    except (ValueError, TypeError) as error:
        draft.refuse(_SNIPPET_FIELD, f"not JSON: {error}")
        return None
    if not isinstance(snippet, dict):
        draft.refuse(_SNIPPET_FIELD, "not a mapping")
        return None
    mistakes_before = len(draft.mistakes)
    draft.take(snippet, (*HEAD_ROWS, *KUBELET_ROWS), prefix=f"{_SNIPPET_FIELD}: ")
    return None if len(draft.mistakes) > mistakes_before else snippet
