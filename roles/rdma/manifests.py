"""The shared RDMA device plugin in a cluster: a ConfigMap and a DaemonSet for each kind of node."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from numaforge.lib.errors import PlanError
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.lib.kubernetes_objects import Manifest, config_map, metadata
from numaforge.roles.rdma.shared_plugin import plugin_text

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.kubelet.delivery import KubeletPlan
    from numaforge.roles.rdma.planned import RdmaPlan

POOLS_LABEL = "numaforge.io/rdma-pools"
"""The Node label whose value names the pools that the plugin has on it."""

_CONFIG_FILE = "config.json"
_DAEMON_SET = Path(__file__).with_name("daemon_set.yaml")


def config_text(plan: NodePlan) -> str:
    """Return a node's config.json; raises PlanError for a plan without pools."""
    if not plan.rdma.pools:
        raise PlanError(
            "has no pools of RDMA devices",
            where=plan.hostname,
            remedy="plan a machine that has RDMA devices, with rdma.device_plugin.per in the profile",
        )
    return plugin_text(plan.rdma.pools)


def pools_name(rdma: RdmaPlan, kubelet: KubeletPlan | None) -> str:
    """Return the name of a node's pools; nodes share it where the plugin gets the same configuration."""
    digest_input = f"{_registry(kubelet)}\n{plugin_text(rdma.pools)}"
    return f"pools-{sha256(digest_input.encode()).hexdigest()[:10]}"


def plugin_manifests(
    plans: Iterable[NodePlan], image: str, name: str, namespace: str
) -> tuple[list[Manifest], dict[str, dict[str, str]]]:
    """Return the manifests for each kind of nodes, and the labels that select them, by hostname."""
    kinds: dict[str, NodePlan] = {}
    labels: dict[str, dict[str, str]] = {}
    for plan in plans:
        chosen = pools_name(plan.rdma, plan.kubelet)
        kinds.setdefault(chosen, plan)
        labels[plan.hostname] = {POOLS_LABEL: chosen}
    manifests = [
        manifest
        for chosen, plan in sorted(kinds.items())
        for manifest in _manifests(metadata(f"{name}-{chosen}", namespace), chosen, image, plan)
    ]
    return manifests, labels


def _manifests(metadata: Manifest, chosen: str, image: str, plan: NodePlan) -> tuple[Manifest, Manifest]:
    # Immutable: changed pools get another name, so no running plugin's configuration changes.
    text = config_map(metadata, {_CONFIG_FILE: config_text(plan)}, immutable=True)
    return text, _daemon_set(metadata, chosen, image, _registry(plan.kubelet))


def _registry(kubelet: KubeletPlan | None) -> str:
    return f"{kubelet.root_dir if kubelet else ROOT_DIR}/plugins_registry"


def _daemon_set(metadata: Manifest, chosen: str, image: str, registry: str) -> Manifest:
    daemon_set: Manifest = yaml.safe_load(_DAEMON_SET.read_text(encoding="utf-8"))
    spec = daemon_set["spec"]
    daemon_set["metadata"] = metadata
    pod = spec["template"]["spec"]
    spec["selector"]["matchLabels"] = {POOLS_LABEL: chosen}
    spec["template"]["metadata"]["labels"] = {POOLS_LABEL: chosen}
    pod["nodeSelector"] = {POOLS_LABEL: chosen}
    pod["containers"][0]["image"] = image
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    volumes["plugins-registry"]["hostPath"]["path"] = registry
    volumes["config"]["configMap"]["name"] = metadata["name"]
    return daemon_set
