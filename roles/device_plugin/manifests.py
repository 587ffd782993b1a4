"""ConfigMaps for NVIDIA's device plugin and GPU operator: one text for each kind of node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numaforge.lib.errors import PlanError
from numaforge.lib.kubernetes_objects import Manifest, as_yaml, config_map, metadata
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.amd_partitions.config_manager import (
    CONFIG_KEY,
    PROFILE_LABEL,
    manager_config,
    manager_profile,
)
from numaforge.roles.device_plugin.labels import OPERATOR_LABEL
from numaforge.roles.device_plugin.plan import config_document
from numaforge.roles.mig.operator import operator_entries, operator_name

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

OPERATOR_KEY = "config.yaml"  # where mig-manager reads it (gpu-operator, assets/state-mig-manager)


def device_plugin_text(plan: NodePlan) -> str:
    """Return a node's configuration of the device plugin, as YAML; raises PlanError without one."""
    if plan.device_plugin is None:
        raise PlanError(
            "has no section device_plugin",
            where=plan.hostname,
            remedy="plan with a profile that has a section device_plugin",
        )
    return as_yaml(config_document(plan.device_plugin))


def config_key(plan: NodePlan) -> str:
    """Return a node's key in the plugin's ConfigMap: as its plan names it, else its profile's name."""
    return (plan.device_plugin and plan.device_plugin.config) or plan.profile


def device_plugin_config_map(plans: Iterable[NodePlan], name: str, namespace: str) -> Manifest:
    """Return the plugin's ConfigMap: a key for each kind of node.

    A Node's label nvidia.com/device-plugin.config chooses the key. Raises PlanError where two nodes want
    different texts under one key.
    """
    texts: dict[str, str] = {}
    first: dict[str, str] = {}
    for plan in plans:
        text = device_plugin_text(plan)
        key = config_key(plan)
        if texts.setdefault(key, text) != text:
            raise PlanError(
                f"{first[key]} and {plan.hostname} want different configurations under the key {key}",
                where="device_plugin.config",
                remedy="give each kind of node a name of its own in its profile",
            )
        first.setdefault(key, plan.hostname)
    return config_map(metadata(name, namespace), texts)


def operator_config_map(
    machines: Iterable[tuple[NodePlan, NodeTopology]], name: str, namespace: str
) -> tuple[Manifest, Mapping[str, Mapping[str, str]]]:
    """Return the ConfigMap of mig-manager, and by hostname the labels that choose a config."""
    configs: dict[str, list[dict[str, Any]]] = {}
    labels: dict[str, dict[str, str]] = {}
    for plan, topology in machines:
        try:
            entries = operator_entries(plan.mig, topology)
        except PlanError as error:
            raise error.at(plan.hostname) from error
        chosen = operator_name(plan.profile, entries)
        configs[chosen] = entries
        labels[plan.hostname] = {OPERATOR_LABEL: chosen}
    text = as_yaml({"version": "v1", "mig-configs": dict(sorted(configs.items()))})
    return config_map(metadata(name, namespace), {OPERATOR_KEY: text}), labels


def manager_config_map(
    plans: Iterable[NodePlan], name: str, namespace: str
) -> tuple[Manifest, Mapping[str, Mapping[str, str]]]:
    """Return the ConfigMap of AMD's config manager, and by hostname the labels that choose a profile."""
    profiles: dict[str, Any] = {}
    labels: dict[str, dict[str, str]] = {}
    for plan in plans:
        config, chosen = manager_profile(plan.amd_partitions), plan.labels.get(PROFILE_LABEL)
        if config is None or chosen is None:
            raise PlanError(
                "does not leave the modes of AMD GPUs to the device config manager",
                where=plan.hostname,
                remedy="set amd_partitions.managed_by: device-config-manager, and the modes in gpus",
            )
        profiles[chosen] = config
        labels[plan.hostname] = {PROFILE_LABEL: chosen}
    return config_map(metadata(name, namespace), {CONFIG_KEY: manager_config(profiles)}), labels
