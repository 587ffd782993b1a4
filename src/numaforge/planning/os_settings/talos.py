"""Talos: a patch of the machine configuration, and the schematic that brings kernel parameters.

Source: siderolabs/talos v1.13.9 and v1.14.0-rc.1, pkg/machinery/config/schemas/config.schema.json,
pkg/machinery/kubelet (protected fields), pkg/machinery/kernel (keys of sysfs).
"""

from collections.abc import Iterator
from typing import Any

import yaml

from numaforge.planning.os_settings.content import (
    LeftOut,
    OsSettings,
    kubelet_of,
    module_options,
    programs_left_out,
    sysctls_of,
    sysfs_of,
)
from numaforge.planning.plan import NodePlan

PROTECTED = frozenset(
    {
        *("apiVersion", "authentication", "authorization", "cgroupRoot", "kind", "kubeletCgroups", "port"),
        *("protectKernelDefaults", "resolvConf", "rotateCertificates", "seccompDefault", "staticPodPath"),
        "systemCgroups",
    }
)
"""Fields of a KubeletConfiguration that Talos sets itself and refuses in a machine configuration."""

_STATE = (
    "Talos removes the kubelet's cpu_manager_state only when cpuManagerPolicy changes. On a node whose "
    "kubelet has run, apply cpuManagerPolicy none first where reservedSystemCPUs or the policy's options "
    "change, and reset the node where memoryManagerPolicy or reservedMemory change: the kubelet does not "
    "start on the old state"
)
_SCHEMATIC = (
    "kernel parameters are in the schematic: the Image Factory makes an installer image of it that brings "
    "them. With GRUB, and without grubUseUKICmdline, machine.install.extraKernelArgs takes them instead"
)
_RESERVED = "systemReserved replaces Talos' own, which reserves cpu, pid and ephemeral-storage, too"


def machine_patch(plan: NodePlan) -> OsSettings:
    """Return a plan as a patch with the section `machine`, which Talos 1.10 and later take."""
    content = _content(plan)
    sections: dict[str, Any] = {
        "kubelet": content["kubelet"] and {"extraConfig": content["kubelet"]},
        "sysctls": content["sysctls"],
        "sysfs": content["sysfs"],
        "kernel": content["modules"] and {"modules": content["modules"]},
        "nodeLabels": content["labels"],
    }
    machine = {name: section for name, section in sections.items() if section}
    return _settings(plan, [{"machine": machine}] if machine else [])


def documents_patch(plan: NodePlan) -> OsSettings:
    """Return a plan as patches of the documents that Talos 1.14 puts in place of the section `machine`."""
    content = _content(plan)
    documents: list[dict[str, Any]] = [
        {"kind": "KubeletConfig", "config": content["kubelet"]},
        {"kind": "SysctlConfig", "params": content["sysctls"]},
        {"kind": "SysfsConfig", "params": content["sysfs"]},
        {"kind": "KubeNodeConfig", "labels": content["labels"]},
    ]
    used = [document for document in documents if all(document.values())]
    modules = [{"kind": "KernelModuleConfig", **module} for module in content["modules"]]
    return _settings(plan, [{"apiVersion": "v1alpha1", **document} for document in (*used, *modules)])


def _content(plan: NodePlan) -> dict[str, Any]:
    settings = kubelet_of(plan).settings
    return {
        "kubelet": {name: settings[name] for name in sorted(settings) if name not in PROTECTED},
        "sysctls": sysctls_of(plan),
        # A key whose first separator is a slash keeps its dots.
        "sysfs": {path.removeprefix("/sys/"): text for path, text in sysfs_of(plan).items()},
        "modules": [
            {"name": name, "parameters": options} if options else {"name": name}
            for name, options in module_options(plan).items()
        ],
        "labels": dict(plan.labels),
    }


def _settings(plan: NodePlan, documents: list[dict[str, Any]]) -> OsSettings:
    files = [("yaml", "---\n".join(_yaml(document) for document in documents))]
    parameters = kernel_parameters(plan)
    if parameters:
        files.append(("schematic.yaml", _yaml({"customization": {"extraKernelArgs": parameters}})))
    only_options = ", ".join(name for name in plan.modules.options if name not in plan.modules.load)
    notes = (
        _STATE,
        *((f"Talos loads a module to set its options: {only_options}",) if only_options else ()),
        *((_RESERVED,) if "systemReserved" in kubelet_of(plan).settings else ()),
        *((_SCHEMATIC,) if parameters else ()),
    )
    return OsSettings(tuple(files), (*_left_out(plan),), notes)


def kernel_parameters(plan: NodePlan) -> list[str]:
    """Return the planned parameters, with one that blocks the modules that nothing may load."""
    blocked = ",".join(plan.modules.blocked)
    return [*plan.kernel.cmdline, *([f"module_blacklist={blocked}"] if blocked else [])]


def _left_out(plan: NodePlan) -> Iterator[LeftOut]:
    for name in sorted(kubelet_of(plan).settings.keys() & PROTECTED):
        yield LeftOut(f"kubelet: {name}", "Talos sets this field of the kubelet itself, and refuses another")
    if plan.mig.gpus:
        yield LeftOut("mig", "the GPU operator's MIG manager cuts the GPUs (mig.managed_by: gpu-operator)")
    yield from programs_left_out(plan, "Talos")


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=False, width=10**6)
