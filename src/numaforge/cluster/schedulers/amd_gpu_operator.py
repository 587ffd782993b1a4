"""AMD's GPU Operator: a DeviceConfig per kind of node, and the ConfigMap of its device config manager.

A DeviceConfig is for the nodes that its selector names, and no two may choose the same node: the operator
skips one of them. Nodes of a kind share a label of ours.

Source: ROCm/gpu-operator, api/v1alpha1/deviceconfig_types.go, internal/validator/specValidators.go (device
plugin and DRA driver exclude each other), docs/drivers/installation.md (`driver.enable: false` where the host
has a driver).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from numaforge.cluster.schedulers.fleet import (
    ServedFleet,
    ServedNode,
    Written,
    commented,
    node_patch,
    tolerations,
)
from numaforge.cluster.schedulers.labels import PREFIX
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.lib.kubernetes_objects import as_yaml, manifest
from numaforge.lib.ordering import grouped
from numaforge.roles.amd_partitions.plan import amd_gpus
from numaforge.roles.device_plugin.manifests import manager_config_map
from numaforge.roles.mig.operator import operator_name

WHY = "AMD's GPU Operator: a DeviceConfig for each kind of node, and how its GPUs are partitioned"
NAMESPACE = "kube-amd-gpu"
MANAGER_CONFIG = "numaforge-partitions"
SELECTOR = f"{PREFIX}/amd-device-config"
OWN = ("amd.com/v1alpha1", "DeviceConfig")
UNSET = {
    "spec": {
        "driver": {"enable": True, "blacklist": False},
        "devicePlugin": {
            "enableDevicePlugin": True,
            "devicePluginArguments": {"resource_naming_strategy": "single"},
        },
        "draDriver": {"enable": False},
        "configManager": {"enable": False},
    }
}

_VALUES = "amd-gpu-operator.values.yml"
_MANAGER = "device-config-manager"


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield DeviceConfigs, the labels of their nodes, the manager's ConfigMap, and values."""
    nodes = [node for node in fleet.nodes if amd_gpus(node.machine)]
    if not nodes:
        fleet.nothing = "none of these nodes has a GPU of AMD's"
        return
    kinds = grouped((operator_name("numaforge", _spec(node)), node) for node in nodes)
    for node in nodes:
        if not _host_has_driver(node):
            fleet.leave_out(node, "amdgpu is not known to have its GPUs: set driver.enable yourself")
    why = (
        "the driver stays the host's where amdgpu has the GPUs, and their modes have one manager; images and "
        "the exporter are yours to add"
    )
    configs = tuple(
        manifest(*OWN, name, NAMESPACE, spec={**_spec(chosen[0]), "selector": {SELECTOR: name}})
        for name, chosen in kinds.items()
    )
    yield Written("device-configs.yaml", why, configs, compared=tuple(map(_compared, configs)))
    patches = [node_patch(node, {SELECTOR: name}) for name, chosen in kinds.items() for node in chosen]
    yield Written("nodes.yaml", "the label by which a DeviceConfig chooses its nodes", tuple(patches))
    if handed := [node.plan for node in nodes if _is_handed_over(node)]:
        config_map, _ = manager_config_map(handed, MANAGER_CONFIG, NAMESPACE)
        why = "the modes of GPUs; the roll-out labels each drained node with the name of its own"
        yield Written("config-map.yaml", why, (config_map,))
    why = (
        "helm upgrade --install amd-gpu-operator ... -f this: the chart's default DeviceConfig chooses every "
        "node with a GPU, and of two for one node the operator skips one"
    )
    values = {"crds": {"defaultCR": {"install": False, "upgrade": False}}}
    yield Written(_VALUES, why, text=commented(why) + as_yaml(values))


def _compared(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the DeviceConfig to compare with a live one: releases without DRA driver reject its field."""
    spec = config["spec"]
    return {**config, "spec": {**spec, "draDriver": spec.get("draDriver", {"enable": False})}}


def _spec(node: ServedNode) -> dict[str, Any]:
    """Return the spec that a plan implies; fields that it does not set are for other writers."""
    parts = ("driver", "devicePlugin", "draDriver", "configManager")
    spec: dict[str, dict[str, Any]] = {part: {} for part in parts}
    if _host_has_driver(node):
        # a blacklisted driver of the host would not be loaded at the next boot
        spec["driver"] = {"enable": False, "blacklist": False}
    if node.claims_gpus:
        spec["devicePlugin"] = {"enableDevicePlugin": False}
        spec["draDriver"] = {"enable": True}
    else:
        arguments = {"resource_naming_strategy": node.plan.amd_partitions.naming}
        spec["devicePlugin"] = {"enableDevicePlugin": True, "devicePluginArguments": arguments}
    if node.plan.amd_partitions.gpus:
        config = {"config": {"name": MANAGER_CONFIG}} if _is_handed_over(node) else {}
        spec["configManager"] = {"enable": _is_handed_over(node), **config}
    if node.kubelet_root != ROOT_DIR:
        spec["metricsExporter"] = {"podResourceAPISocketPath": f"{node.kubelet_root}/pod-resources"}
    if taints := tolerations([node]):
        spec["devicePlugin"] |= {"devicePluginTolerations": taints, "nodeLabellerTolerations": taints}
        spec["configManager"]["configManagerTolerations"] = taints
        if spec["draDriver"]:
            spec["draDriver"]["tolerations"] = taints
    return {name: value for name, value in spec.items() if value}


def _is_handed_over(node: ServedNode) -> bool:
    return bool(node.plan.amd_partitions.gpus) and node.plan.amd_partitions.managed_by == _MANAGER


def _host_has_driver(node: ServedNode) -> bool:
    """Return whether amdgpu is known to have all of AMD's GPUs."""
    return {gpu.driver for gpu in amd_gpus(node.machine).values()} == {"amdgpu"}
