"""The labels that GPU feature discovery gives a Node, as far as they follow from its machine and plan.

k8s-device-plugin v0.20, internal/lm: nvml.go, resource.go, mig-strategy.go, machine-type.go.
"""

import re
from collections.abc import Iterator, Sequence

from numaforge.kubelet.admission.nvidia_resources import GPU, PREFIX, mig_resource
from numaforge.lib.kubernetes_objects import CLIQUE
from numaforge.lib.ordering import grouped
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.trays import cliques_of
from numaforge.planning.plan import NodePlan
from numaforge.roles.device_plugin.labels import STRATEGY_LABEL
from numaforge.roles.device_plugin.plan import DevicePluginPlan
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus

_MEBIBYTE = 2**20
_OLD_PARTS, _NEW_PARTS = ("major", "minor", "rev"), ("major", "minor", "revision")  # of a driver's version
_NOT_SHARED = DevicePluginPlan("none")
_OF_GPU = (
    "product count replicas sharing-strategy memory family compute.major compute.minor machine mode present"
)
_OF_DRIVER = (
    "driver.major driver.minor driver.rev driver-version.major driver-version.minor driver-version.revision "
    "driver-version.full runtime.major runtime.minor runtime-version.major runtime-version.minor "
    "runtime-version.full"
)
_ALL = (
    *(f"{GPU}.{name}" for name in _OF_GPU.split()),
    *(f"{PREFIX}cuda.{name}" for name in _OF_DRIVER.split()),
    *(f"{PREFIX}{name}.capable" for name in ("mig", "mps")),
    STRATEGY_LABEL,
    CLIQUE,
)
"""The labels of a Node with NVIDIA's GPUs; a Node without any has none of them."""

_FAMILIES = {
    "1d": ("volta", "7.0"),
    "1e": ("turing", "7.5"),
    "20": ("ampere", "8.0"),
    "22": ("ampere", "8.6"),
    "23": ("hopper", "9.0"),
    "25": ("ampere", "8.6"),
    "26": ("ada-lovelace", "8.9"),
    "27": ("ada-lovelace", "8.9"),
    "29": ("blackwell", "10.0"),
    "2b": ("blackwell", "12.0"),
    "2e": ("blackwell", "12.1"),
    "30": ("rubin", None),
    "31": ("blackwell", "10.3"),
}
"""The families and compute capabilities of GPUs by the first digits of their PCI device ids."""


def planned_labels(machine: NodeTopology, plan: NodePlan | None) -> dict[str, str | None]:
    """Return the known labels of a machine as planned; without a plan, as it is."""
    cut = any(gpu.mig_mode == "enabled" for gpu in nvml_gpus(machine).values())
    strategy = plan.mig.strategy if plan and cut else None
    return discovered_labels(machine, plan.device_plugin if plan else None, strategy)


def discovered_labels(
    machine: NodeTopology, plugin: DevicePluginPlan | None, strategy: str | None = None
) -> dict[str, str | None]:
    """Return the known labels; None for one that the Node lacks.

    `plugin` is the plugin's configuration, which feature discovery also reads. Without it, `strategy` is its
    migStrategy, None where unknown.
    """
    gpus = [*nvml_gpus(machine).values()]
    if not gpus:
        return dict.fromkeys(_ALL)
    labels: dict[str, str | None] = {f"{GPU}.present": "true"}
    if machine.product_name:
        labels[f"{GPU}.machine"] = _sanitised(machine.product_name)
    if len(cliques := cliques_of(machine)) == 1:
        labels[CLIQUE] = cliques[0]
    labels.update(_of_driver(machine))
    capable = {gpu.mig_capable for gpu in gpus}
    if None not in capable:
        labels[f"{PREFIX}mig.capable"] = _flag(True in capable)
    if plugin is not None:
        labels[f"{PREFIX}mps.capable"] = _flag(plugin.sharing == "mps")
    strategy = plugin.mig_strategy if plugin else strategy
    if strategy is not None:
        labels[STRATEGY_LABEL] = strategy if strategy != "none" else None
    if len({gpu.name for gpu in gpus}) == 1 and gpus[0].name:  # of several models it is not known which
        labels.update(_of_gpus(gpus, gpus[0].name, strategy or "mixed", plugin or _NOT_SHARED))
    return labels


def _of_driver(machine: NodeTopology) -> Iterator[tuple[str, str]]:
    driver = machine.nvidia.version if machine.nvidia else None
    if driver and 2 <= len(parts := driver.split(".")) <= 3:
        for old, new, value in zip(_OLD_PARTS, _NEW_PARTS, (*parts, ""), strict=False):
            yield f"{PREFIX}cuda.driver.{old}", value
            yield f"{PREFIX}cuda.driver-version.{new}", value
        yield f"{PREFIX}cuda.driver-version.full", driver
    cuda = machine.nvidia.cuda_version if machine.nvidia else None
    if cuda and len(parts := cuda.split(".")) == 2:
        for name, value in zip(("major", "minor"), parts, strict=True):
            yield f"{PREFIX}cuda.runtime.{name}", value
            yield f"{PREFIX}cuda.runtime-version.{name}", value
        yield f"{PREFIX}cuda.runtime-version.full", cuda


def _of_gpus(
    gpus: Sequence[Gpu], name: str, strategy: str, plugin: DevicePluginPlan
) -> Iterator[tuple[str, str]]:
    """Yield the labels of GPUs of one model, and of their MIG devices."""
    memory = {gpu.memory_bytes for gpu in gpus}
    cut = [gpu for gpu in gpus if gpu.mig_mode == "enabled"]
    known = [_FAMILIES.get(gpu.device[:2], (None, None)) for gpu in gpus]
    families = {family for family, _ in known}
    capabilities = {gpu.compute_capability or own for gpu, (_, own) in zip(gpus, known, strict=True)}
    if len(families) == 1 and (family := families.pop()):
        yield f"{GPU}.family", family
    if len(capabilities) == 1 and (capability := capabilities.pop()):
        for part, value in zip(("major", "minor"), capability.split("."), strict=False):
            yield f"{GPU}.compute.{part}", value
    if strategy == "single" and cut:
        yield from _of_slices(cut, name, GPU) if len(cut) == len(gpus) else ()
        return
    yield from _of_resource(GPU, name, len(gpus), plugin, is_shared=len(cut) < len(gpus))
    if len(memory) == 1 and (size := memory.pop()):
        yield f"{GPU}.memory", str(size // _MEBIBYTE)
    if strategy == "mixed":
        yield from _of_slices(cut, name, None)


def _of_slices(cut: Sequence[Gpu], name: str, resource: str | None) -> Iterator[tuple[str, str]]:
    """Yield the labels of MIG devices, each kind as a resource of its own, else all as `resource`."""
    names = [mig_device_names(gpu) for gpu in cut]
    if None in names:
        return
    kinds = grouped((profile, profile) for profiles in names for profile in profiles or ())
    if resource is not None and len(kinds) != 1:
        return
    for profile, devices in kinds.items():
        key = resource or mig_resource(profile)
        yield f"{key}.product", f"{_sanitised(name)}-MIG-{_sanitised(profile)}"
        yield f"{key}.count", str(len(devices))


def _of_resource(
    resource: str, name: str, count: int, plugin: DevicePluginPlan, *, is_shared: bool
) -> Iterator[tuple[str, str]]:
    replicas = plugin.replicas.get(resource, 1) if is_shared else 0
    shared = "-SHARED" if replicas > 1 and not plugin.renamed else ""
    yield f"{resource}.product", _sanitised(name) + shared
    yield f"{resource}.count", str(count)
    if plugin is not _NOT_SHARED:  # without a plan nothing is known of sharing
        yield f"{resource}.replicas", str(replicas)
        yield f"{resource}.sharing-strategy", plugin.sharing if replicas > 1 else "none"


def _sanitised(text: str) -> str:
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", text).split())


def _flag(value: bool) -> str:
    return "true" if value else "false"
