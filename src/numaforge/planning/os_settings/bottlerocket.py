"""Bottlerocket: the settings of its API as TOML, for user data or `apiclient apply`.

Source: bottlerocket-os/bottlerocket-settings-sdk, bottlerocket-settings-models: modeled-types,
settings-models/src/boot, settings-extensions/{kubernetes,kernel,kubelet-device-plugins}.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from numaforge.kubelet.admission.nvidia_resources import GPU
from numaforge.machine.knobs import KNOB_AT
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.os_settings.content import (
    LeftOut,
    OsSettings,
    kubelet_of,
    module_options,
    programs_left_out,
    sysctls_of,
)
from numaforge.planning.plan import NodePlan
from numaforge.roles.kernel_values.paths import knob_values
from numaforge.roles.mig.models import known_model, profile_of

SETTINGS = {
    "cpuManagerPolicy": "cpu-manager-policy",
    "topologyManagerPolicy": "topology-manager-policy",
    "topologyManagerScope": "topology-manager-scope",
    "memoryManagerPolicy": "memory-manager-policy",
    "reservedSystemCPUs": "reserved-cpus",
    "kubeReserved": "kube-reserved",
    "systemReserved": "system-reserved",
    "evictionHard": "eviction-hard",
}
"""Settings of Kubernetes with the value that the field of the KubeletConfiguration has."""

_CPU_OPTIONS = ("full-pcpus-only",)
_RESERVED = ("cpu", "memory", "ephemeral-storage")
_SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubeReserved": _RESERVED,
    "systemReserved": _RESERVED,
    "evictionHard": _SIGNALS,
}
_THP = "/sys/kernel/mm/transparent_hugepage/"
_MIG_MODELS = re.compile(r"(a30|a100|h100|h200)-\d+gb")
_PARAMETER = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def settings_toml(plan: NodePlan, machine: NodeTopology) -> OsSettings:
    """Return a plan as the settings of Bottlerocket's API."""
    left_out: list[LeftOut] = []
    settings: dict[str, Any] = {
        "kubernetes": _kubernetes(plan, left_out),
        "kernel": _kernel(plan, left_out),
        "boot": _boot(plan, left_out),
        "kubelet-device-plugins": {"nvidia": _nvidia(plan, machine, left_out)},
    }
    left_out += programs_left_out(plan, "Bottlerocket")
    return OsSettings((("toml", "\n".join(_toml({"settings": settings})) + "\n"),), tuple(left_out))


def _kubernetes(plan: NodePlan, left_out: list[LeftOut]) -> dict[str, Any]:
    kubernetes: dict[str, Any] = {}
    for name, value in kubelet_of(plan).settings.items():
        if name == "cpuManagerPolicyOptions":
            options = [option for option, word in value.items() if word == "true"]
            kubernetes["cpu-manager-policy-options"] = [name for name in options if name in _CPU_OPTIONS]
            left_out += (
                LeftOut(f"kubelet: cpuManagerPolicyOptions.{option}", "Bottlerocket does not offer it")
                for option in options
                if option not in _CPU_OPTIONS
            )
        elif name == "reservedMemory":
            kubernetes["memory-manager-reserved-memory"] = {
                str(entry["numaNode"]): {"enabled": True, **entry["limits"]} for entry in value
            }
        elif name in _KEYS:
            kubernetes[SETTINGS[name]] = {key: value[key] for key in value if key in _KEYS[name]}
            left_out += (
                LeftOut(f"kubelet: {name}.{key}", "Bottlerocket does not offer it")
                for key in value
                if key not in _KEYS[name]
            )
        elif name in SETTINGS:
            kubernetes[SETTINGS[name]] = value
        else:
            left_out.append(LeftOut(f"kubelet: {name}", "Bottlerocket has no setting for it"))
    return {**kubernetes, "node-labels": dict(plan.labels)}


def _kernel(plan: NodePlan, left_out: list[LeftOut]) -> dict[str, Any]:
    tuning = plan.tuning
    no_setting = "Bottlerocket has no setting for files below /sys; a bootstrap container can write them"
    pages = {f"{_THP}{name}": name for name in ("enabled", "defrag")}
    values = (
        ("cpus.offline", tuning.offline.cpus),
        ("tuning.governor", tuning.governors),
        ("tuning.energy_preference", tuning.energy_preferences),
        ("tuning.cpu_idle", tuning.idle_states_off),
        *((f"tuning.{KNOB_AT[path].key}", path) for path in knob_values(tuning) if path not in pages),
        ("interrupts.workqueues", plan.interrupts.workqueues),
    )
    left_out += (LeftOut(key, no_setting) for key, value in values if value)
    counts: dict[str, str] = {}
    for pool in plan.hugepages.pools:
        count = str(pool.pages) if pool.numa_node is None else f"{pool.numa_node}:{pool.pages}"
        counts[pool.size] = ",".join(filter(None, (counts.get(pool.size), count)))
    transparent = {name: knob_values(tuning).get(path) for path, name in pages.items()}
    return {
        "sysctl": sysctls_of(plan),
        "modules": {
            **{name: {"allowed": True, "autoload": True} for name in plan.modules.load},
            **{name: {"allowed": False} for name in plan.modules.blocked},
        },
        "hugepages": {
            "static": {size: {"count": count} for size, count in counts.items()},
            "transparent": {name: word for name, word in transparent.items() if word},
        },
    }


def _boot(plan: NodePlan, left_out: list[LeftOut]) -> dict[str, Any]:
    words = [*plan.kernel.cmdline]
    words += (f"{module}.{option}" for module, options in module_options(plan).items() for option in options)
    names = Counter(word.partition("=")[0] for word in words)
    parameters: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not _PARAMETER.fullmatch(name):
            left_out.append(LeftOut(f"kernel parameter {word}", "Bottlerocket refuses its name"))
        elif names["hugepagesz"] > 1 and name in ("hugepagesz", "hugepages"):
            left_out.append(
                LeftOut(f"kernel parameter {word}", "Bottlerocket does not keep counts beside their sizes")
            )
        else:
            parameters.setdefault(name, []).extend([value] if equals else [])
    reconcile = {"reboot-to-reconcile": True} if parameters and plan.kernel.reboot == "allowed" else {}
    return {**reconcile, "kernel-parameters": parameters}


def _nvidia(plan: NodePlan, machine: NodeTopology, left_out: list[LeftOut]) -> dict[str, Any]:
    """Return how Bottlerocket's own device plugin shares and cuts the GPUs."""
    nvidia: dict[str, Any] = {}
    plugin = plan.device_plugin
    if plugin is not None and plugin.replicas:
        shared: dict[str, Any] = {"replicas": plugin.replicas.get(GPU, 1)}
        if plugin.sharing == "time-slicing":
            shared["rename-by-default"] = plugin.renamed
            if plugin.one_per_pod is not None:
                shared["fail-requests-greater-than-one"] = plugin.one_per_pod
        nvidia = {"device-sharing-strategy": plugin.sharing, plugin.sharing: shared}
        lacking = [f"device_plugin: {resource}" for resource in plugin.replicas if resource != GPU]
        lacking += ["device_plugin.packed"] if plugin.packed else []
        lacking += ["device_plugin.rename_shared"] if plugin.renamed and plugin.sharing == "mps" else []
        left_out += (LeftOut(key, "Bottlerocket's device plugin has no setting for it") for key in lacking)
    if plan.mig.gpus:
        profiles, why = _mig_profiles(plan, machine)
        if why:
            left_out.append(LeftOut("mig", why))
        else:
            nvidia["device-partitioning-strategy"] = "mig"
            nvidia["mig"] = {"profile": profiles}
    return nvidia


def _mig_profiles(plan: NodePlan, machine: NodeTopology) -> tuple[dict[str, str], str | None]:
    """Return the profile of each model, or why Bottlerocket cannot cut the GPUs so."""
    if plan.mig.managed_by != "numaforge":
        return {}, f"mig.managed_by: {plan.mig.managed_by} cuts the GPUs"
    gpus = {gpu.pci_address: gpu for gpu in machine.gpus}
    profiles: dict[str, set[str]] = {}
    for cut in plan.mig.gpus:
        model = known_model(gpus[cut.pci_address]) if cut.pci_address in gpus else None
        if model is None or not _MIG_MODELS.fullmatch(model.key):
            return {}, "Bottlerocket cuts A30, A100, H100 and H200 alone"
        names = {instance.profile for instance in cut.instances}
        name = next(iter(names), "")
        if len(names) != 1 or "+" in name or len(cut.instances) != profile_of(model, name).limit:
            return {}, f"GPU {cut.pci_address}: Bottlerocket fills a GPU with instances of one profile"
        profiles.setdefault(model.key.replace("-", "."), set()).add(name)
    if any(len(names) > 1 for names in profiles.values()):
        return {}, "Bottlerocket cuts all GPUs of a model alike"
    return {model: next(iter(names)) for model, names in profiles.items()}, None


def _toml(table: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the lines of a table: its values, then the tables in it; empty tables are omitted."""
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    if values:
        yield from (("",) if path else ())
        yield from ((f"[{path}]",) if path else ())
        yield from (f"{_key(name)} = {json.dumps(value)}" for name, value in values.items())
    for name, inner in table.items():
        if isinstance(inner, Mapping):
            yield from _toml(inner, f"{path}.{_key(name)}" if path else _key(name))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
