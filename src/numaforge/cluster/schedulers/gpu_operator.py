"""NVIDIA's GPU Operator: its chart's values, the ConfigMaps that it mounts, and the parts left out on nodes.

One ClusterPolicy is for all nodes. Where plans differ, a Node label nvidia.com/gpu.deploy.* disables a part
of the operator there: the operator respects such a label.

Source: NVIDIA/gpu-operator v26.7, deployments/gpu-operator/values.yaml and templates/clusterpolicy.yaml,
controllers/state_manager.go (labels), controllers/object_controls.go (applyMIGConfiguration: the policy's
strategy is an environment variable of the device plugin, which takes it before its own file).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numaforge.cluster.schedulers.fleet import (
    ServedFleet,
    ServedNode,
    Written,
    commented,
    node_patch,
    tolerations,
)
from numaforge.lib.kubelet_paths import ROOT_DIR
from numaforge.lib.kubernetes_objects import as_yaml, manifest
from numaforge.machine.topology.vendors import listed_by_nvml
from numaforge.roles.device_plugin.labels import CONFIG_LABEL
from numaforge.roles.device_plugin.manifests import (
    config_key,
    device_plugin_config_map,
    device_plugin_text,
    operator_config_map,
)
from numaforge.roles.device_plugin.plan import in_mig_mode

WHY = "NVIDIA's GPU Operator: values of its chart that fit these plans, and the ConfigMaps that they name"
NAMESPACE = "gpu-operator"
PLUGIN_CONFIG, MIG_CONFIG = "numaforge-device-plugin", "numaforge-mig-parted"
OWN = ("nvidia.com/v1", "ClusterPolicy")
UNSET = {
    "spec": {
        "driver": {"enabled": True},
        "devicePlugin": {"enabled": True},
        "dcgm": {"enabled": True},
        "migManager": {"enabled": True, "config": {"default": "all-disabled"}},
        "hostPaths": {"kubeletRootDir": ROOT_DIR},
    }
}
"""The operator's defaults for unset fields of its ClusterPolicy (api/nvidia/v1: IsEnabled)."""

_VALUES = "gpu-operator.values.yml"
_DEPLOY = "nvidia.com/gpu.deploy"
_CHARTS_OWN = ("node-feature-discovery",)
_DEFAULT = "default"
_WITHOUT_CONFIG = "version: v1\n"
_GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_CONTROL_PLANE = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Equal",
    "value": "",
    "effect": "NoSchedule",
}
_HOST_ENGINE = "nv-hostengine"
_UNSAID = (
    "Not set, because no plan knows it: the driver's release and kind of module (driver.version, "
    "kernelModuleType, usePrecompiled), who sets up the container runtime (toolkit, cdi), and the exporter "
    "(numaforge generate monitoring)"
)

Values = Mapping[str, Any]


class _Operand(NamedTuple):
    """A part of the operator: its section of the values, its node label's suffix, whether a node wants it.

    `runs_on` returns None where the plan leaves it open. `why` is the reason where nodes do without it.
    """

    section: str
    label: str
    runs_on: Callable[[ServedNode], bool | None]
    why: str

    def enabled(self, nodes: Sequence[ServedNode]) -> bool | None:
        """Return whether the policy enables it: True where a node wants it, False where none may have it."""
        answers = {self.runs_on(node) for node in nodes}
        return True if True in answers else False if answers == {False} else None

    def switched_off(self, nodes: Sequence[ServedNode]) -> Iterator[tuple[str, Values]]:
        """Yield the values that disable it where no node may have it."""
        if self.enabled(nodes) is False:
            yield self.why, {self.section: {"enabled": False}}


def _wants_driver(node: ServedNode) -> bool | None:
    """Return whether the operator brings the driver: not where the host has its module file or library."""
    install = node.machine.nvidia_install
    return None if install is None else not (install.on_disk or install.library)


def _wants_host_engine(node: ServedNode) -> bool | None:
    install = node.machine.nvidia_install
    daemons = (install.daemons if install else None) or ()
    return False if any(daemon.name == _HOST_ENGINE and daemon.pod is None for daemon in daemons) else None


DRIVER = _Operand("driver", "driver", _wants_driver, "the hosts have the driver")
MIG_MANAGER = _Operand(
    "migManager",
    "mig-manager",
    lambda node: node.plan.mig.managed_by == "gpu-operator" if node.plan.mig.gpus else None,
    "numaforge cuts the GPUs, or a DRA driver does",
)
DEVICE_PLUGIN = _Operand(
    "devicePlugin",
    "device-plugin",
    lambda node: False if node.claims_gpus else None,
    "a DRA driver hands out the GPUs, so no device plugin may",
)
HOST_ENGINE = _Operand("dcgm", "dcgm", _wants_host_engine, f"the hosts run {_HOST_ENGINE} themselves")
_OPERANDS = (DRIVER, MIG_MANAGER, DEVICE_PLUGIN, HOST_ENGINE)


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield the chart's values with their ClusterPolicy, ConfigMaps, and labels of nodes."""
    nodes = tuple(node for node in fleet.nodes if any(map(listed_by_nvml, node.machine.gpus)))
    if not nodes:
        fleet.nothing = "none of these nodes has a GPU of NVIDIA's driver"
        return
    plugin, default = _plugin_config(fleet, nodes)
    geometries = [(node.plan, node.machine) for node in nodes if MIG_MANAGER.runs_on(node)]
    _note_what_is_not_said(fleet, nodes)
    sections = (
        *_driver(nodes),
        *_mig_strategy(fleet, nodes),
        *_mig_manager(nodes),
        *_device_plugin(nodes, plugin, default),
        *HOST_ENGINE.switched_off(nodes),
        *_places(fleet, nodes),
    )
    yield _values(sections)
    maps = [plugin] if plugin else []
    if geometries:
        maps.append(operator_config_map(geometries, MIG_CONFIG, NAMESPACE)[0])
    if maps:
        why = "apply it before the roll-out labels nodes: a config manager ends where a label names no key"
        yield Written("config-maps.yaml", why, tuple(maps))
    if patches := tuple(_patches(nodes)):
        why = "parts of the operator that these nodes do without, while others have them"
        yield Written("nodes.yaml", why, patches)


def _values(sections: Sequence[tuple[str, Values]]) -> Written:
    """Return the chart's values, each with its reason, and the chart's ClusterPolicy."""
    why = f"helm upgrade --install gpu-operator ... -f this, beside your own values. {_UNSAID}"
    text = "".join(commented(reason) + as_yaml(dict(values)) for reason, values in sections)
    spec = {key: value for _, values in sections for key, value in values.items() if key not in _CHARTS_OWN}
    if spec.get("mig") == {"strategy": ""}:
        spec["mig"] = {"strategy": None}  # the chart leaves an empty one out
    policy = manifest(*OWN, "cluster-policy", labels={}, spec=spec)
    return Written(_VALUES, why, text=f"{commented(why)}{text}", compared=(policy,))


def _driver(nodes: Sequence[ServedNode]) -> Iterator[tuple[str, Values]]:
    yield from DRIVER.switched_off(nodes)
    if DRIVER.enabled(nodes):
        yield "hosts without a driver get it from the operator", {"driver": {"enabled": True}}


def strategy_of(node: ServedNode) -> str | None:
    """Return the migStrategy that a node needs; None where all have the same effect, as with whole GPUs.

    The plugin refuses MPS with `mixed` even where no GPU is in MIG mode.
    """
    plugin = node.plan.device_plugin
    if DEVICE_PLUGIN.runs_on(node) is False or node.plan.mig.managed_by == "dra-driver":
        return None
    if in_mig_mode(node.machine):
        return plugin.mig_strategy if plugin else node.plan.mig.strategy
    return "none" if plugin and plugin.sharing == "mps" else None


def _mig_strategy(fleet: ServedFleet, nodes: Sequence[ServedNode]) -> Iterator[tuple[str, Values]]:
    needed = {node.name: strategy_of(node) for node in nodes}
    strategies = sorted({strategy for strategy in needed.values() if strategy})
    if len(strategies) == 1:
        yield "what these plans count resources by: mig.strategy", {"mig": {"strategy": strategies[0]}}
    if len(strategies) < 2:
        return
    for node in nodes:
        if needed[node.name] and node.plan.device_plugin is None:
            fleet.leave_out(
                node,
                f"it needs migStrategy {needed[node.name]}, others need another one, and the policy has one: "
                "give its profile a section device_plugin, whose configuration sets it for this node",
            )
    why = (
        f"these plans need {' and '.join(strategies)}: unset, the configuration of each node's plugin counts"
    )
    yield why, {"mig": {"strategy": ""}}


def _mig_manager(nodes: Sequence[ServedNode]) -> Iterator[tuple[str, Values]]:
    yield from MIG_MANAGER.switched_off(nodes)
    why = (
        "its default, all-disabled, takes the GPU instances of nodes that have no label nvidia.com/mig.config"
    )
    if MIG_MANAGER.enabled(nodes):
        component = {"enabled": True, "config": {"name": MIG_CONFIG, "default": ""}}
        yield f"it cuts GPUs where mig.managed_by is gpu-operator; {why}", {"migManager": component}
    elif MIG_MANAGER.enabled(nodes) is None:
        yield why, {"migManager": {"config": {"default": ""}}}


def _plugin_config(
    fleet: ServedFleet, nodes: Sequence[ServedNode]
) -> tuple[dict[str, Any] | None, str | None]:
    """Return the device plugin's ConfigMap and the key for nodes without a label; None where unset."""
    first: dict[str, ServedNode] = {}
    served = [node for node in nodes if DEVICE_PLUGIN.runs_on(node) is not False]
    for node in served:
        if node.plan.device_plugin is None:
            continue
        earlier = first.setdefault(config_key(node.plan), node)
        if device_plugin_text(earlier.plan) != device_plugin_text(node.plan):
            fleet.leave_out(
                node,
                f"its configuration of the device plugin is not that of {earlier.name} under the same key "
                f"{config_key(node.plan)}: give it a name of its own, device_plugin.config",
            )
    if not first:
        return None, None
    config_map = device_plugin_config_map([node.plan for node in first.values()], PLUGIN_CONFIG, NAMESPACE)
    unlabelled = [node for node in served if CONFIG_LABEL not in node.plan.labels]
    keys = {config_key(node.plan) if node.plan.device_plugin else None for node in unlabelled}
    if keys == {None} and _DEFAULT not in first:
        config_map["data"] = {_DEFAULT: _WITHOUT_CONFIG, **config_map["data"]}
        return config_map, _DEFAULT
    if len(keys) == 1 and None not in keys:
        return config_map, keys.pop()
    for node in unlabelled:
        fleet.leave_out(
            node,
            "it takes the device plugin's default configuration, and so do nodes that need another one: "
            "give each kind of node a name, device_plugin.config",
        )
    return config_map, None


def _device_plugin(
    nodes: Sequence[ServedNode], config_map: Mapping[str, Any] | None, default: str | None
) -> Iterator[tuple[str, Values]]:
    yield from DEVICE_PLUGIN.switched_off(nodes)
    if config_map is not None:
        config = {"name": PLUGIN_CONFIG} | ({"default": default} if default else {})
        why = f"a key for each kind of node: the label {CONFIG_LABEL} of a Node chooses"
        yield why, {"devicePlugin": {"config": config}}


def _places(fleet: ServedFleet, nodes: Sequence[ServedNode]) -> Iterator[tuple[str, Values]]:
    """Yield the kubelets' root, and the tolerations of pods that a node needs before its taints go."""
    [(root, _)] = Counter(node.kubelet_root for node in nodes).most_common(1)
    for node in nodes:
        if node.kubelet_root != root:
            fleet.leave_out(
                node, f"its kubelet is in {node.kubelet_root}, others in {root}, and the policy has one"
            )
    if root != ROOT_DIR:
        yield "the kubelets' --root-dir", {"hostPaths": {"kubeletRootDir": root}}
    if taints := tolerations(nodes):
        why = "these nodes register with taints, and what serves their GPUs has to run before they go"
        yield (
            why,
            {
                "daemonsets": {"tolerations": [_GPU_TAINT, *taints]},
                "node-feature-discovery": {"worker": {"tolerations": [_CONTROL_PLANE, _GPU_TAINT, *taints]}},
            },
        )


def _note_what_is_not_said(fleet: ServedFleet, nodes: Sequence[ServedNode]) -> None:
    for node in nodes:
        runs = DRIVER.runs_on(node)
        if runs is None:
            fleet.leave_out(
                node, "whether its host has NVIDIA's driver is unknown; set driver.enabled yourself"
            )
        options = sorted(name for name in node.plan.modules.options if name.startswith("nvidia"))
        if runs and options:
            fleet.leave_out(
                node,
                f"its plan's options of {' and '.join(options)} are for the host's modprobe; the operator's "
                "driver takes them from the ConfigMap of driver.kernelModuleConfig",
            )


def _patches(nodes: Sequence[ServedNode]) -> Iterator[dict[str, Any]]:
    """Yield the Nodes that do without a part that others have."""
    of_some = [part for part in _OPERANDS if part.enabled(nodes) is not False]
    for node in nodes:
        if labels := [f"{_DEPLOY}.{part.label}" for part in of_some if part.runs_on(node) is False]:
            yield node_patch(node, dict.fromkeys(labels, "false"))
