"""OpenShift: KubeletConfig, MachineConfig and MachineConfigPool for each kind of node."""

import json
from collections.abc import Iterator

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written
from numaforge.lib.kubernetes_objects import Manifest, manifest
from numaforge.lib.ordering import grouped

WHY = "the kubelet's settings as its Machine Config Operator takes them; its nodes reboot for a change"
_API = "machineconfiguration.openshift.io/v1"
_POOL_LABEL = "pools.operator.machineconfiguration.openshift.io"
_ROLE = "machineconfiguration.openshift.io/role"
ELSEWHERE = {"featureGates": "the cluster's FeatureGate object", "registerWithTaints": "its MachineSet"}
"""Settings that a KubeletConfig may not have, and where they belong."""


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield a pool for each group of nodes with equal settings and kernel arguments."""
    for node in fleet.nodes:
        if not node.settings:
            fleet.left_out[node.name] = "nothing of its kubelet is planned"
    kinds = grouped(
        (json.dumps([node.settings, node.plan.kernel.cmdline], sort_keys=True), node)
        for node in fleet.nodes
        if node.settings
    )
    for number, nodes in enumerate(kinds.values(), 1):
        pool = "numaforge" if len(kinds) == 1 else f"numaforge-{number}"
        names = ", ".join(node.name for node in nodes)
        label = f"node-role.kubernetes.io/{pool}"
        yield Written(f"{pool}.yaml", f"for {names}: label each {label}=", tuple(_pool(pool, nodes[0])))
        for name in ELSEWHERE.keys() & nodes[0].settings.keys():
            fleet.left_out.update({node.name: f"{name} is set by {ELSEWHERE[name]}" for node in nodes})


def _pool(pool: str, node: ServedNode) -> Iterator[Manifest]:
    role_label = {f"{_POOL_LABEL}/{pool}": ""}
    roles = {"key": _ROLE, "operator": "In", "values": ["worker", pool]}
    spec = {
        "machineConfigSelector": {"matchExpressions": [roles]},
        "nodeSelector": {"matchLabels": {f"node-role.kubernetes.io/{pool}": ""}},
    }
    yield manifest(_API, "MachineConfigPool", pool, labels=role_label, spec=spec)
    settings = {name: value for name, value in node.settings.items() if name not in ELSEWHERE}
    spec = {"machineConfigPoolSelector": {"matchLabels": role_label}, "kubeletConfig": settings}
    yield manifest(_API, "KubeletConfig", pool, labels={}, spec=spec)
    if node.plan.kernel.cmdline:
        spec = {
            "config": {"ignition": {"version": "3.2.0"}},
            "kernelArguments": [str(argument) for argument in node.plan.kernel.cmdline],
        }
        yield manifest(_API, "MachineConfig", f"50-{pool}", labels={_ROLE: pool}, spec=spec)
